"""Selling in one process: built as configured; what cannot work is refused before it begins."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog
from solders.keypair import Keypair

from mintscope.base.clock import Clock
from mintscope.base.errors import NeedsOperator, PriceUnavailable, ServiceUnavailable
from mintscope.base.primitives import Mint, Wallet
from mintscope.base.solana import Endpoint
from mintscope.client.keypair import parse_keypair, read_keypair
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.credits.rotation import RotationStore
from mintscope.core.market.log import LogReader
from mintscope.core.payments.adopter import Adopter
from mintscope.core.payments.books.audit import Auditor
from mintscope.core.payments.books.orphans import Recognise
from mintscope.core.payments.facilitator import Facilitator
from mintscope.core.payments.pricing.price_cache import PinnedPrice, PriceCache, PriceSource
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.reconciler import Reconciler
from mintscope.core.payments.redelivery import Secrets
from mintscope.core.payments.settlement import ChainUnavailable, PaymentChain
from mintscope.core.payments.store import WALLET_LAMPORTS_MIN, Budget
from mintscope.edges.maintenance.payment_maintenance import PaymentMaintenance, tell_unreadable
from mintscope.edges.settlement import price_sources
from mintscope.edges.settlement.reserves import RpcReserves, Vaults
from mintscope.edges.settlement.rpc_settlement import RpcSettlement
from mintscope.shell.config.config import Config
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.orphans import adopter_of
from mintscope.shell.wiring.stores import Money

log = structlog.get_logger()

PAYMENT_LAMPORTS: Final = 10_001


class CannotSell(NeedsOperator):
    """The configuration cannot sell; the message says why, and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sales:
    """Everything that sells in this process."""

    config: PaymentsConfig
    facilitator: Facilitator
    price_cache: PriceCache
    chain: PaymentChain
    rotations: RotationStore
    adopter: Adopter
    maintenance: PaymentMaintenance

    async def expect_ready(self, *, is_restart: bool = False) -> None:
        """Check the payment token, the treasury and the fee payer before anything is sold.

        A node that does not answer is no reason to refuse those who have credits.  Neither is
        anything else once the service ran: with *is_restart* it is logged, and maintenance
        keeps sales closed as long as it lasts.
        Raises    UnusablePaymentToken, CannotSell
        """
        try:
            await self.chain.expect_usable()
            expect_funds(await self.maintenance.look_at_fees(), self.facilitator.terms.fee_payer)
        except ChainUnavailable as trouble:
            log.warning("nothing is sold until the node answers", reason=str(trouble))
        except (CannotSell, UnusablePaymentToken) as trouble:
            if not is_restart:
                raise
            log.warning("nothing can be sold after a restart", reason=str(trouble))
        with suppress(PriceUnavailable):
            await self.price_cache.price_list()  # so that the first client finds a price

    async def expect_open(self) -> None:
        """Raise ServiceUnavailable while sales are closed to anybody."""
        closure = self.maintenance.closure
        if closure is not None:
            raise ServiceUnavailable(f"closed: {closure.why}")

    async def expect_chain(self) -> None:
        """Raise ServiceUnavailable if the node does not answer."""
        try:
            await self.chain.lamports(self.facilitator.terms.fee_payer)
        except ChainUnavailable as trouble:
            raise ServiceUnavailable("the chain's node does not answer") from trouble

    def merchant(self, origin: str) -> Merchant:
        """Return what the API sells with; clients reach it at *origin*."""
        return Merchant(
            facilitator=self.facilitator,
            price_cache=self.price_cache,
            rotations=self.rotations,
            adopter=self.adopter,
            origin=origin,
            asset_name=self.config.asset_name,
            asset_symbol=self.config.asset_symbol,
        )


def expect_funds(lamports: int, fee_payer: Wallet) -> None:
    """Expect the fee payer to afford a payment.  Raises CannotSell."""
    needed = WALLET_LAMPORTS_MIN + PAYMENT_LAMPORTS
    if lamports < needed:
        raise CannotSell(
            f"fee payer {fee_payer}: expected at least {needed} lamports; it has {lamports}:"
            " send it some SOL, 0.1 lasts for 10,000 payments"
        )


@asynccontextmanager
async def open_sales(
    config: Config, *, money: Money, reader: LogReader, clock: Clock
) -> AsyncIterator[Sales]:
    """Build what sells.  Raises CannotSell, UnusableKeypair."""
    payments, endpoint = config.payments, payment_endpoint(config.chain)
    fee_payer = fee_payer_of(payments)
    terms = terms_of(payments, fee_payer)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(open_settlement(config.chain, terms, clock))
        price = money.shared(price_source(payments, endpoint, reader, stack))
        price_cache = _price_cache(payments, price, chain, reader, clock)
        facilitator = Facilitator(
            terms=terms,
            secrets=Secrets.derive(money.pepper),
            fee_payer=fee_payer,
            store=money.payments,
            adoptions=money.adoptions,
            chain=chain,
            clock=clock,
            entropy=os.urandom,
            budget=budget_of(payments),
        )
        adopter = adopter_of(chain, terms, money, reader, clock)
        yield Sales(
            config=payments,
            facilitator=facilitator,
            price_cache=price_cache,
            chain=chain,
            rotations=money.rotations,
            adopter=adopter,
            maintenance=_maintenance(
                payments,
                money=money,
                facilitator=facilitator,
                chain=chain,
                price_cache=price_cache,
                recognise=adopter.recognise,
            ),
        )


def _price_cache(
    payments: PaymentsConfig,
    price: PriceSource,
    chain: PaymentChain,
    reader: LogReader,
    clock: Clock,
) -> PriceCache:
    return PriceCache(
        price_sources.UsableToken(price_sources.TrueClock(price, chain, clock), chain),
        decimals=payments.decimals,
        clock=clock,
        sol=price_sources.SolPrice(reader),
        fee_share_max=payments.fee_share_max,
    )


def budget_of(payments: PaymentsConfig) -> Budget:
    """Return what may be lost in any hour."""
    return Budget(
        failures=payments.failures_per_hour_max,
        in_flight_new_payer=payments.in_flight_per_new_payer_max,
        in_flight_payer=payments.in_flight_per_payer_max,
        in_flight_address=payments.in_flight_per_address_max,
        fee_lamports=payments.fees_per_hour_lamports,
        in_flight_fee_lamports=payments.fees_in_flight_lamports,
    )


@asynccontextmanager
async def open_adopter(
    config: Config, *, money: Money, reader: LogReader, clock: Clock
) -> AsyncIterator[Adopter]:
    """Build what adopts payments, for a command.  Raises CannotSell, UnusableKeypair."""
    terms = terms_of(config.payments, fee_payer_of(config.payments))
    async with open_settlement(config.chain, terms, clock) as chain:
        yield adopter_of(chain, terms, money, reader, clock)


def _maintenance(  # noqa: PLR0913 - one argument for each part
    payments: PaymentsConfig,
    *,
    money: Money,
    facilitator: Facilitator,
    chain: RpcSettlement,
    price_cache: PriceCache,
    recognise: Recognise,
) -> PaymentMaintenance:
    clock = facilitator.clock
    reconciler = Reconciler(
        store=money.payments, chain=chain, clock=clock, on_unreadable=tell_unreadable
    )
    auditor = Auditor(
        books=money.audit_books,
        orphans=money.orphan_books,
        recognise=recognise,
        treasury=money.treasury_books,
        history=chain,
        reconciler=reconciler,
        clock=clock,
    )
    return PaymentMaintenance(
        chain=chain,
        store=money.payments,
        books=money.maintenance_books,
        turn=money.audit_turn,
        orphans=money.orphan_books,
        auditor=auditor,
        reconciler=reconciler,
        price_cache=price_cache,
        clock=clock,
        fee_payer=facilitator.terms.fee_payer,
        lamports_min=payments.fee_payer_lamports_min,
        budget=facilitator.budget,
    )


def terms_of(payments: PaymentsConfig, fee_payer: Keypair) -> Terms:
    """Return the terms of every payment.  Raises CannotSell."""
    if payments.pay_to is None:
        raise CannotSell("payments.pay_to: expected the treasury's wallet; none is configured")
    if str(fee_payer.pubkey()) == payments.pay_to:
        raise CannotSell(
            "payments.pay_to: expected another wallet than the fee payer's, whose key is on this"
            " machine: name the treasury"
        )
    return Terms(
        network=payments.network,
        asset=Mint(payments.asset),
        decimals=payments.decimals,
        token_program=Wallet(payments.token_program),
        pay_to=Wallet(payments.pay_to),
        fee_payer=Wallet(str(fee_payer.pubkey())),
    )


def fee_payer_of(payments: PaymentsConfig) -> Keypair:
    """Return the key that pays the network fees.  Raises UnusableKeypair, CannotSell."""
    if payments.fee_payer_key is not None:
        return parse_keypair(payments.fee_payer_key.get_secret_value())
    if payments.fee_payer_file is None:
        raise CannotSell("payments.fee_payer_file: expected a key that pays the network fees")
    return read_keypair(payments.fee_payer_file)


def open_settlement(chain: ChainConfig, terms: Terms, clock: Clock) -> RpcSettlement:
    """Return the client that settles payments, a context manager."""
    return RpcSettlement(payment_endpoint(chain), terms=terms, clock=clock)


def payment_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the node that payments are settled through."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
    )


def price_source(
    payments: PaymentsConfig, endpoint: Endpoint, reader: LogReader, stack: AsyncExitStack
) -> PriceSource:
    """Return the configured source; *stack* closes what it opens."""
    match payments.price_source:
        case "pinned":
            return PinnedPrice(payments.price_usd)
        case "feed":
            if payments.price_feed_url is None:
                raise CannotSell("payments.price_feed_url: expected the feed of the price")
            feed = price_sources.FeedPrice(payments.price_feed_url.get_secret_value())
            stack.push_async_callback(feed.aclose)
            return feed
        case "market":
            asset = Mint(payments.asset)
            pairs = (pool.partition(":") for pool in payments.pools)
            pools = [Vaults(Wallet(base), Wallet(quote)) for base, _, quote in pairs]
            reserves = RpcReserves(endpoint, base=asset, pools=pools)
            stack.push_async_callback(reserves.aclose)
            return price_sources.MarketPrice(
                reader, reserves, asset=asset, decimals=payments.decimals
            )
