"""Selling in one process: built as configured; what cannot work is refused before it begins."""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from mintscope.base.clock import Clock
from mintscope.base.errors import PriceUnavailable, ServiceUnavailable, UnusableStore
from mintscope.base.limits import Limits
from mintscope.base.metrics import TRIALS_REFUSED
from mintscope.base.pace import Pace
from mintscope.base.primitives import Wallet
from mintscope.base.solana import Endpoint
from mintscope.core.checkout.merchant import AcceptedToken, Merchant
from mintscope.core.credits.rotation import RotationStore
from mintscope.core.market.log import LogReader
from mintscope.core.payments.adopter import Adopter
from mintscope.core.payments.books.audit import Auditor
from mintscope.core.payments.books.orphans import Recognise
from mintscope.core.payments.facilitator import Facilitator
from mintscope.core.payments.pricing.price import Doubt
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.core.payments.protocol.requirement import Terms
from mintscope.core.payments.reconciler import Reconciler
from mintscope.core.payments.redelivery import Secrets
from mintscope.core.payments.settlement import ChainUnavailable, PaymentChain
from mintscope.core.payments.store import WALLET_LAMPORTS_MIN, Budget
from mintscope.core.payments.trials import Trials
from mintscope.edges.maintenance.payment_maintenance import PaymentMaintenance, tell_unreadable
from mintscope.edges.settlement.price_sources import other_chain
from mintscope.edges.settlement.rpc_settlement import RpcSettlement
from mintscope.shell.config.config import Config
from mintscope.shell.config.payments import PaymentsConfig
from mintscope.shell.config.sections import ChainConfig
from mintscope.shell.wiring.selling.orphans import adopter_of
from mintscope.shell.wiring.selling.prices import payment_tokens_of, price_source
from mintscope.shell.wiring.selling.terms import (
    CannotSell,
    accepted_terms,
    fee_payer_of,
    known_terms,
)
from mintscope.shell.wiring.stores import Money

log = structlog.get_logger()

PAYMENT_LAMPORTS: Final = 10_001
Measured: TypeAlias = Callable[[], Pace | None]


def unmeasured() -> None:
    """Return no pace: that of the payments' node is measured."""


CLOSING: Final = (Doubt.OTHER_CHAIN, Doubt.UNUSABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sales:
    """Everything that sells in this process."""

    facilitator: Facilitator
    payment_tokens: Sequence[AcceptedToken]
    chain: PaymentChain
    rotations: RotationStore
    adopter: Adopter
    maintenance: PaymentMaintenance
    reader: LogReader

    async def expect_ready(self, *, is_restart: bool = False) -> None:
        """Check the payment token, the treasury and the fee payer before anything is sold.

        A node that does not answer is no reason to refuse those who have credits.  Neither is
        anything else once the service ran: with *is_restart* it is logged, and maintenance
        keeps sales closed as long as it lasts.
        Raises    UnusablePaymentToken, CannotSell
        """
        try:
            await self._expect_own_chain()
            for each in self.payment_tokens:
                await self.chain.expect_usable(each.terms.asset)
            expect_funds(await self.maintenance.look_at_fees(), self.facilitator.terms.fee_payer)
        except ChainUnavailable as trouble:
            log.warning("nothing is sold until the node answers", reason=str(trouble))
        except (CannotSell, UnusablePaymentToken) as trouble:
            if not is_restart:
                raise
            log.warning("nothing can be sold after a restart", reason=str(trouble))
        with suppress(ChainUnavailable):
            await self.chain.refresh_offer()  # so that the first 402 carries a blockhash
        for each in self.payment_tokens:
            with suppress(PriceUnavailable):
                await each.price_cache.price_list()  # so that the first client finds a price

    async def _expect_own_chain(self) -> None:
        with suppress(UnusableStore, ServiceUnavailable):  # each look at a price compares again
            other = await other_chain(self.chain, self.reader)
            if other is not None:
                raise CannotSell(other)

    async def expect_open(self) -> None:
        """Raise ServiceUnavailable while sales are closed to anybody."""
        closure = self.maintenance.closure
        if closure is not None:
            raise ServiceUnavailable(f"closed: {closure.why}")

    async def expect_selling(self) -> None:
        """Raise ServiceUnavailable while sales are closed, or a treasury takes no payment."""
        await self.expect_open()
        for each in self.payment_tokens:
            if each.price_cache.doubt in CLOSING:
                raise ServiceUnavailable(f"closed in {each.symbol}: {each.price_cache.doubt}")

    async def expect_prices(self) -> None:
        """Raise ServiceUnavailable while a payment token has no price, and is not accepted."""
        for each in self.payment_tokens:
            if (doubt := each.price_cache.doubt) is not None:
                raise ServiceUnavailable(f"no price of {each.symbol}: {doubt}")

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
            payment_tokens=self.payment_tokens,
            rotations=self.rotations,
            adopter=self.adopter,
            origin=origin,
            closure=lambda: self.maintenance.closure,
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
async def open_sales(  # noqa: PLR0913 - one argument for each part
    config: Config,
    *,
    money: Money,
    reader: LogReader,
    clock: Clock,
    pace: Measured = unmeasured,
    limits: Limits | None = None,
) -> AsyncIterator[Sales]:
    """Build what sells; *pace* returns the pace of the chain as the log's follower measures it.

    limits    counts payments that fail; None: they are not counted

    Raises CannotSell, UnusableKeypair.
    """
    payments = config.payments
    endpoint = payment_endpoint(config.chain)
    known = known_terms(payments, fee_payer_of(payments))
    accepted = accepted_terms(payments, known)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(
            open_settlement(config.chain, known, clock, pace, reader)
        )
        price = money.shared(price_source(config, endpoint, reader, stack))
        tokens = payment_tokens_of(
            payments, price, accepted=accepted, chain=chain, reader=reader, clock=clock
        )
        facilitator = _facilitator(
            payments, accepted, money=money, chain=chain, limits=limits, clock=clock
        )
        adopter = adopter_of(chain, known, money, reader, clock)
        yield Sales(
            facilitator=facilitator,
            payment_tokens=tokens,
            chain=chain,
            rotations=money.rotations,
            adopter=adopter,
            maintenance=_maintenance(
                payments,
                money=money,
                facilitator=facilitator,
                chain=chain,
                payment_tokens=tokens,
                recognise=adopter.recognise,
                spends_kept_months=config.credits.spends_kept_months or None,
            ),
            reader=reader,
        )


def _facilitator(  # noqa: PLR0913 - one argument for each part
    payments: PaymentsConfig,
    accepted: Sequence[Terms],
    *,
    money: Money,
    chain: RpcSettlement,
    limits: Limits | None,
    clock: Clock,
) -> Facilitator:
    trials = None
    if limits is not None:
        most = payments.failed_trials_per_minute_max
        trials = Trials(limits, most, buyers=money.buyers, on_refused=TRIALS_REFUSED.inc)
    return Facilitator(
        trials=trials,
        terms=accepted[0],
        also=accepted[1:],
        secrets=Secrets.derive(money.pepper, money.roots),
        fee_payer=fee_payer_of(payments),
        store=money.payments,
        adoptions=money.adoptions,
        chain=chain,
        clock=clock,
        entropy=os.urandom,
        budget=budget_of(payments),
        slot_s=chain.slot_s,
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
    known = known_terms(config.payments, fee_payer_of(config.payments))
    async with open_settlement(config.chain, known, clock) as chain:
        yield adopter_of(chain, known, money, reader, clock)


def _maintenance(  # noqa: PLR0913 - one argument for each part
    payments: PaymentsConfig,
    *,
    money: Money,
    facilitator: Facilitator,
    chain: RpcSettlement,
    payment_tokens: Sequence[AcceptedToken],
    recognise: Recognise,
    spends_kept_months: int | None,
) -> PaymentMaintenance:
    clock = facilitator.clock
    slot_s = chain.slot_s
    reconciler = Reconciler(
        store=money.payments,
        chain=chain,
        clock=clock,
        slot_s=slot_s,
        on_unreadable=tell_unreadable,
    )
    auditor = Auditor(
        books=money.audit_books,
        orphans=money.orphan_books,
        recognise=recognise,
        treasury=money.treasury_books,
        history=chain,
        reconciler=reconciler,
        clock=clock,
        assets=[None, *(each.terms.asset for each in payment_tokens[1:])],
        spends_kept_months=spends_kept_months,
    )
    return PaymentMaintenance(
        chain=chain,
        store=money.payments,
        books=money.maintenance_books,
        turn=money.audit_turn,
        orphans=money.orphan_books,
        auditor=auditor,
        reconciler=reconciler,
        price_caches=[each.price_cache for each in payment_tokens],
        clock=clock,
        slot_s=slot_s,
        fee_payer=facilitator.terms.fee_payer,
        lamports_min=payments.fee_payer_lamports_min,
        budget=facilitator.budget,
    )


def open_settlement(
    chain: ChainConfig,
    known: Sequence[Terms],
    clock: Clock,
    pace: Measured = unmeasured,
    reader: LogReader | None = None,
) -> RpcSettlement:
    """Return the client that settles payments, a context manager.

    reader    of the log of the same chain, which shows how far the chain has come
    """

    async def followed_slot() -> int:
        if reader is None:
            return 0
        try:
            tip = await reader.tip()
        except (ServiceUnavailable, UnusableStore):
            return 0  # as far as is known: ingest has not made the log yet
        return 0 if tip.slot is None or tip.follows_files else tip.slot

    return RpcSettlement(
        payment_endpoint(chain),
        terms=known,
        clock=clock,
        pace=pace,
        followed_slot=followed_slot,
    )


def payment_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the node that payments are settled through."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
    )
