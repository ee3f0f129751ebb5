"""Builds the objects that sell: they settle payments, read prices and find lost payments."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import sha256
from itertools import product
from typing import Final, TypeAlias

import msgspec
import structlog
from solders.keypair import Keypair

from mintscope.api.x402 import TOKEN_KIND, bundle_offers, report_offers
from mintscope.app.config.config import ChainConfig
from mintscope.app.config.groups import Config, PaymentsConfig
from mintscope.app.config.load import expect_closed
from mintscope.app.stores.stores import Money, open_market
from mintscope.credits.rotation import RotationStore
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import flaw_of_key
from mintscope.kit.errors import NeedsOperator, PriceUnavailable, ServiceUnavailable, UnusableStore
from mintscope.kit.limits import Limits
from mintscope.kit.metrics import TRIALS_REFUSED
from mintscope.kit.primitives import Mint, Signature, Wallet
from mintscope.market.log import LogReader
from mintscope.payments import price_sources
from mintscope.payments.audit import Auditor, Recognise, Recognised, quote_of, recognise
from mintscope.payments.facilitator import Facilitator
from mintscope.payments.maintenance import PaymentMaintenance, tell_unreadable
from mintscope.payments.merchant import AcceptedToken, Adopter, Merchant
from mintscope.payments.payment import Landed
from mintscope.payments.ports import WALLET_LAMPORTS_MIN, Budget, ChainUnavailable, PaymentChain
from mintscope.payments.price_cache import PinnedPrice, PriceCache, PriceSource
from mintscope.payments.price_sources import RpcReserves, Vaults, other_chain
from mintscope.payments.pricing import Doubt, PriceList, worth_of_atoms
from mintscope.payments.protocol.envelope import TOKEN_PROGRAM, Terms
from mintscope.payments.protocol.memo import UnusablePaymentToken, shows_kind
from mintscope.payments.reconciler import Reconciler, Secrets
from mintscope.payments.search import Seen
from mintscope.payments.settlement import RpcSettlement
from mintscope.payments.trials import Trials
from mintscope.solana.blocks import Endpoint
from mintscope.solana.pace import Pace
from mintscope_client.keypair import UnusableKeypair, parse_keypair, read_keypair

USDC_DECIMALS: Final = 6


class CannotSell(NeedsOperator):
    """Nothing can be sold: a setting, the node's chain or the fee payer's funds do not allow it."""


def terms_of(payments: PaymentsConfig, fee_payer: Keypair) -> Terms:
    """Return the terms of payments in the payment token.  Raises CannotSell."""
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


def known_terms(payments: PaymentsConfig, fee_payer: Keypair) -> Sequence[Terms]:
    """Return the terms of the payment token, then those of USDC, even if USDC is not accepted.

    If the payment token is USDC, return its terms only once.  Payments in USDC are settled even
    after USDC is no longer accepted.  Raises CannotSell.
    """
    terms = terms_of(payments, fee_payer)
    if payments.usdc_mint == payments.asset:
        return (terms,)
    usdc = replace(
        terms,
        asset=Mint(payments.usdc_mint),
        decimals=USDC_DECIMALS,
        token_program=TOKEN_PROGRAM,
    )
    return (terms, usdc)


def accepted_terms(payments: PaymentsConfig, known: Sequence[Terms]) -> Sequence[Terms]:
    """Return the payment terms to offer: the first, with `also_usdc` all.  Raises CannotSell."""
    if payments.also_usdc and len(known) == 1:
        raise CannotSell(
            "payments.also_usdc: expected a payment token other than USDC; payments.asset is USDC:"
            " take also_usdc out"
        )
    return known if payments.also_usdc else known[:1]


def fee_payer_of(payments: PaymentsConfig) -> Keypair:
    """Return the key that pays the network fees.

    Raises UnusableKeypair; OpenSecret if other users can access the file; CannotSell if no key is
    configured, or if the key in the file can be guessed.
    """
    if payments.fee_payer_key is not None:
        return parse_keypair(payments.fee_payer_key.get_secret_value())
    if payments.fee_payer_file is None:
        raise CannotSell("payments.fee_payer_file: expected a key that pays the network fees")
    expect_closed(payments.fee_payer_file)
    keypair = read_keypair(payments.fee_payer_file)
    flaw = flaw_of_key(keypair.secret())  # `config.load` checks keys in settings
    if flaw is not None:
        raise CannotSell(
            f"payments.fee_payer_file: expected a key of your own in {payments.fee_payer_file};"
            f" {flaw}"
        )
    return keypair


USDC_NAME: Final = "USD Coin"
USDC_SYMBOL: Final = "USDC"
USDC_USD: Final = Decimal(1)  # by definition; if USDC is worth less, the seller bears the loss


def payment_tokens_of(  # noqa: PLR0913, PLR0917 - one argument for each part
    payments: PaymentsConfig,
    price: PriceSource,
    accepted: Sequence[Terms],
    chain: PaymentChain,
    reader: LogReader,
    clock: Clock,
) -> Sequence[AcceptedToken]:
    """Return the payment tokens of *accepted*; *price* is the price source of the first."""
    own, *beside = accepted

    def token(
        terms: Terms, source: PriceSource, asset: Mint | None, name: str, symbol: str
    ) -> AcceptedToken:
        # UsableToken is the outermost source: it turns unexpected errors of others into a Doubt.
        price_cache = PriceCache(
            price_sources.UsableToken(
                price_sources.OwnChain(
                    price_sources.TrueClock(source, chain, clock), chain, reader
                ),
                chain,
                asset,
            ),
            decimals=terms.decimals,
            clock=clock,
            sol=price_sources.SolPrice(reader),
            fee_share_max=payments.fee_share_max,
        )
        return AcceptedToken(terms=terms, price_cache=price_cache, name=name, symbol=symbol)

    return [
        token(own, price, None, payments.asset_name, payments.asset_symbol),
        *(
            token(each, PinnedPrice(USDC_USD), each.asset, USDC_NAME, USDC_SYMBOL)
            for each in beside
        ),
    ]


PRICE_S_MAX: Final = 1.0  # how long a payment waits for the price of its token


def worth_by_prices_of(
    tokens: Sequence[AcceptedToken], *, patience_s: float = PRICE_S_MAX
) -> Callable[[Mint, int], Awaitable[int | None]]:
    """Return a function that converts smallest units of a token to micro-USD; None if unknown.

    patience_s   the longest wait for a new price, in seconds; then the last price is used, unless
                 it is too old
    """
    readings: set[asyncio.Task[PriceList | None]] = set()

    async def read(cache: PriceCache) -> PriceList | None:
        with suppress(PriceUnavailable):
            return await cache.price_list()
        return None

    async def worth(asset: Mint, atoms: int) -> int | None:
        token = next((each for each in tokens if each.terms.asset == asset), None)
        if token is None:
            return None
        cache = token.price_cache
        prices = cache.latest()
        # A payment with a quote needs no new price, so the wait is short.  The read continues
        # after the wait, because otherwise a slow source would never deliver a price.
        reading = asyncio.create_task(read(cache))
        readings.add(reading)
        reading.add_done_callback(readings.discard)
        await asyncio.wait([reading], timeout=patience_s)
        prices = (reading.result() if reading.done() else None) or prices
        if prices is None:
            return None
        return worth_of_atoms(atoms, prices.quote, decimals=token.terms.decimals)

    return worth


def price_source(
    config: Config, endpoint: Endpoint, reader: LogReader | None, stack: AsyncExitStack
) -> PriceSource:
    """Return the configured source of the payment token's price; *stack* closes it at its end.

    reader   reads the log of the market; it may be None only if the price is not a market price
    Raises   CannotSell if the price comes from a feed whose address is not configured
    """
    payments = config.payments
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
            assert reader is not None
            asset = Mint(payments.asset)
            pairs = (pool.partition(":") for pool in payments.pools)
            pools = [Vaults(Wallet(base), Wallet(quote)) for base, _, quote in pairs]
            dollars = frozenset(map(Mint, config.market.dollars))
            reserves = RpcReserves(endpoint, base=asset, pools=pools, dollars=dollars)
            stack.push_async_callback(reserves.aclose)
            return price_sources.MarketPrice(
                reader, reserves, asset=asset, decimals=payments.decimals, dollars=dollars
            )


def price_basis(payments: PaymentsConfig) -> str:
    """Return a hash of the settings from which the price of the payment token follows."""
    feed = payments.price_feed_url
    settings = [
        payments.asset,
        payments.decimals,
        payments.price_source,
        str(payments.price_usd),
        None if feed is None else feed.get_secret_value(),
        payments.pools,
    ]
    return sha256(msgspec.json.encode(settings)).hexdigest()


def adopter_of(
    chain: RpcSettlement, known: Sequence[Terms], money: Money, reader: LogReader, clock: Clock
) -> Adopter:
    """Return the `Adopter`, which finds out the purchase of a payment that has no row.

    known   the terms of all tokens with which a customer may have paid
    """
    secrets = Secrets.derive(money.pepper, money.roots)
    kinds = [*bundle_offers(), *report_offers([])]

    async def recognised_anywhere(wire: bytes) -> Recognised | None:
        quote = quote_of(wire, known)
        if quote is None:
            return None
        keys = [each.quote for each in secrets.in_force(clock.now())]
        for terms, key in product(known, keys):
            found = recognise(wire, kinds, terms=terms, quote_key=key)
            if found is not None and found.offer.resource != TOKEN_KIND:
                return found
            # A quote that proves its kind would match `kinds`, if it were of this key and token.
            if found is None and shows_kind(quote):
                continue
            _, mints = await reader.tracked()
            # In a thread, because there may be many mints.
            found = await asyncio.to_thread(
                recognise, wire, report_offers(mints), terms=terms, quote_key=key
            )
            if found is not None:
                return found
        return None

    return Adopter(
        records=chain,
        chain=chain,
        store=money.payments,
        adoptions=money.payments,
        recognise=recognised_anywhere,
        secrets=secrets,
        clock=clock,
        entropy=os.urandom,
    )


log = structlog.get_logger()

PAYMENT_LAMPORTS: Final = 10_001  # of two signatures, and the usual priority fee of 1
Measured: TypeAlias = Callable[[], Pace | None]


CLOSING: Final = (Doubt.OTHER_CHAIN, Doubt.UNUSABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sales:
    """The objects with which this process takes payments."""

    facilitator: Facilitator
    payment_tokens: Sequence[AcceptedToken]
    chain: PaymentChain
    rotations: RotationStore
    adopter: Adopter
    maintenance: PaymentMaintenance
    reader: LogReader

    async def expect_ready(self, *, is_restart: bool = False) -> None:
        """Check that the node follows the right chain, and that the service can sell.

        If the node does not answer, this is only logged, because clients can still use their
        credits.  With *is_restart*, other problems are only logged too; until they are solved,
        nothing is sold for the tokens that they affect.  Raises UnusablePaymentToken, CannotSell.
        """
        try:
            await self._expect_own_chain()
            for each in self.payment_tokens:
                await self.chain.expect_usable(each.terms.asset)
            expect_funds(await self.maintenance.look_at_fees(), self.facilitator.terms.fee_payer)
        except ChainUnavailable as trouble:
            log.warning("sales wait for the node to answer", reason=str(trouble))
        except (CannotSell, UnusablePaymentToken) as trouble:
            if not is_restart:
                raise
            log.warning("nothing can be sold after a restart", reason=str(trouble))
        with suppress(ChainUnavailable):
            await self.chain.refresh_offer()  # the first 402 then has a blockhash
        for each in self.payment_tokens:
            with suppress(PriceUnavailable):
                await each.price_cache.price_list()  # the first client then finds a price

    async def _expect_own_chain(self) -> None:
        with suppress(UnusableStore, ServiceUnavailable):  # each read of a price repeats this check
            other = await other_chain(self.chain, self.reader)
            if other is not None:
                raise CannotSell(other)

    async def expect_open(self) -> None:
        """Raise ServiceUnavailable if sales are closed to all clients."""
        closure = self.maintenance.closure
        if closure is not None:
            raise ServiceUnavailable(f"closed: {closure.why}")

    async def expect_selling(self) -> None:
        """Raise ServiceUnavailable if sales are closed to all clients or in a payment token."""
        await self.expect_open()
        for each in self.payment_tokens:
            if each.price_cache.doubt in CLOSING:
                raise ServiceUnavailable(f"closed in {each.symbol}: {each.price_cache.doubt}")

    async def expect_prices(self) -> None:
        """Raise ServiceUnavailable if a payment token has no price, so that it is not accepted."""
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
        """Return the `Merchant`, with which the API sells; *origin* is the service's public URL."""
        return Merchant(
            facilitator=self.facilitator,
            payment_tokens=self.payment_tokens,
            rotations=self.rotations,
            adopter=self.adopter,
            origin=origin,
            closure=lambda: self.maintenance.closure,
        )


def expect_funds(lamports: int, fee_payer: Wallet) -> None:
    """Check that *lamports* of the fee payer are enough for a payment.  Raises CannotSell."""
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
    pace: Measured = lambda: None,
    limits: Limits | None = None,
) -> AsyncIterator[Sales]:
    """Yield the objects that take payments, connected to the chain and to prices.

    pace     returns the pace of the chain that another source has measured; if it returns None, the
             pace of the payment node is measured
    limits   creates the limits of failed payments; None: failed payments are not limited
    Raises   CannotSell, UnusableKeypair, OpenSecret, and UnusablePepper
    """
    payments = config.payments
    fee_payer = fee_payer_of(payments)
    known = known_terms(payments, fee_payer)
    accepted = accepted_terms(payments, known)
    trials = None
    if limits is not None:
        most = payments.failed_trials_per_minute_max
        trials = Trials(limits, most, buyers=money.payments, on_refused=TRIALS_REFUSED.inc)
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(
            open_settlement(config.chain, known, clock, pace, reader)
        )
        price = price_source(config, payment_endpoint(config.chain), reader, stack)
        # Only the price is shared: each process checks clock, chain and token by itself.
        price = money.shared(price, price_basis(payments))
        tokens = payment_tokens_of(payments, price, accepted, chain, reader, clock)
        adopter = adopter_of(chain, known, money, reader, clock)
        facilitator = Facilitator(
            trials=trials,
            terms=accepted[0],
            also=accepted[1:],
            secrets=adopter.secrets,
            fee_payer=fee_payer,
            store=money.payments,
            adoptions=money.payments,
            chain=chain,
            clock=clock,
            entropy=os.urandom,
            budget=budget_of(payments),
            slot_s=chain.slot_s,
            worth=worth_by_prices_of(tokens),
        )
        yield Sales(
            facilitator=facilitator,
            payment_tokens=tokens,
            chain=chain,
            rotations=money.payments,
            adopter=adopter,
            maintenance=_maintenance(config, money, facilitator, chain, tokens, adopter.recognise),
            reader=reader,
        )


def budget_of(payments: PaymentsConfig) -> Budget:
    """Return the limits of failed payments and fees in an hour, and of payments in flight."""
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
    """Yield the `Adopter`, which delivers purchases of payments without a row, for a command.

    Raises CannotSell, UnusableKeypair, OpenSecret, and UnusablePepper.
    """
    known = known_terms(config.payments, fee_payer_of(config.payments))
    async with open_settlement(config.chain, known, clock) as chain:
        yield adopter_of(chain, known, money, reader, clock)


def _maintenance(  # noqa: PLR0913, PLR0917 - one argument for each part
    config: Config,
    money: Money,
    facilitator: Facilitator,
    chain: RpcSettlement,
    payment_tokens: Sequence[AcceptedToken],
    recognise: Recognise,
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
        books=money.books,
        recognise=recognise,
        treasury=money.books,
        history=chain,
        reconciler=reconciler,
        clock=clock,
        assets=[None, *(each.terms.asset for each in payment_tokens[1:])],  # None: payment token
        spends_kept_months=config.credits.spends_kept_months or None,  # 0: for ever
    )
    return PaymentMaintenance(
        chain=chain,
        store=money.payments,
        books=money.books,
        is_auditor=money.books.is_auditor,
        auditor=auditor,
        reconciler=reconciler,
        price_caches=[each.price_cache for each in payment_tokens],
        clock=clock,
        slot_s=slot_s,
        fee_payer=facilitator.terms.fee_payer,
        lamports_min=config.payments.fee_payer_lamports_min,
        budget=facilitator.budget,
    )


def open_settlement(
    chain: ChainConfig,
    known: Sequence[Terms],
    clock: Clock,
    pace: Measured = lambda: None,
    reader: LogReader | None = None,
) -> RpcSettlement:
    """Return the client that sends payments to the chain; use it as an async context manager.

    known    the terms of all tokens in which payments are settled, the payment token's first
    pace     returns the measured duration of slots; None: it is measured at the payment node
    reader   reads the log, whose newest slot is compared with the node's; None: no comparison
    """

    async def followed_slot() -> int:
        if reader is None:
            return 0
        try:
            tip = await reader.tip()
        except (ServiceUnavailable, UnusableStore):
            return 0  # for example if ingest has not created the log yet
        return 0 if tip.slot is None or tip.follows_files else tip.slot

    return RpcSettlement(
        payment_endpoint(chain),
        terms=known,
        clock=clock,
        pace=pace,
        followed_slot=followed_slot,
    )


def payment_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the endpoint of the node through which payments are settled."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainAnswers:
    """The states of payment transactions on chain.

    seen       the state of each transaction, by signature; empty if the states are unknown
    why_not    the reason why the states are unknown, else ""
    """

    seen: Mapping[Signature, Seen] = field(default_factory=dict)
    why_not: str = ""


async def ask_chain(
    config: Config, money: Money, clock: Clock, signatures: Sequence[Signature], *, has_row: bool
) -> ChainAnswers:
    """Return the states on chain of the payments *signatures*, at most FOUND_MAX.

    has_row   whether the store has these payments; if False and the first is on chain, only its
              state is returned, with the name of its purchase, read from the chain
    """
    if not signatures:
        return ChainAnswers()
    try:
        async with (
            open_market(config) as market,
            open_adopter(config, money=money, reader=market.reader, clock=clock) as adopter,
        ):
            sightings = await adopter.chain.look(signatures)
            seen = [Seen(sighting=each) for each in sightings]
            if has_row or not isinstance(sightings[0], Landed):
                return ChainAnswers(seen=dict(zip(signatures, seen, strict=True)))
            wire = await adopter.records.recorded(signatures[0])
            recognised = None if wire is None else await adopter.recognise(wire)
            bought = None if recognised is None else recognised.offer.name
            return ChainAnswers(seen={signatures[0]: Seen(sighting=sightings[0], bought=bought)})
    except (NeedsOperator, UnusableKeypair, UnusableStore, ServiceUnavailable) as trouble:
        return ChainAnswers(why_not=str(trouble))
    except ChainUnavailable as trouble:
        return ChainAnswers(why_not=f"the chain's node does not answer: {trouble}")
