"""Selling in one process: built from the configuration, looked over first, kept true while it runs.

start    the mint, the treasury and the fee payer are looked at: refuse what cannot work
always   the reconciler finishes what a crash or a timeout left
60 s     an audit of what is new; of everything on a new day.  A violation stops sales
"""

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import structlog
from solders.keypair import Keypair

from mintscope.chain.reserves import RpcReserves, Vaults
from mintscope.chain.rpc import Endpoint
from mintscope.chain.settlement import RpcPaymentChain
from mintscope.clock import Clock
from mintscope.config.keypair import parse_keypair, read_keypair
from mintscope.config.sections import ChainConfig, Config, PaymentsConfig
from mintscope.errors import PriceUnavailable, ServiceUnavailable
from mintscope.feeds import FeedPrice, MarketPrice, SolPrice, TrueClock, UsableToken
from mintscope.market.log import LogReader
from mintscope.observe import (
    AUDITS,
    FEE_PAYER_LAMPORTS,
    OLDEST_PENDING_S,
    PENDING_PAYMENTS,
    SALES_OPEN,
    VIOLATIONS,
)
from mintscope.payments.board import RETRY_S, PinnedPrice, PriceBoard, PriceSource
from mintscope.payments.cashier import Cashier
from mintscope.payments.chain import ChainUnavailable
from mintscope.payments.invariants import Auditor, Invariant, Violation
from mintscope.payments.reconciler import Reconciler
from mintscope.payments.redelivery import REDELIVERY_MS, Secrets
from mintscope.payments.requirement import Terms
from mintscope.payments.store import Budget
from mintscope.primitives import Mint, UnixMs, Wallet
from mintscope.storage.sqlite.credits import MONEY_FILE
from mintscope.storage.sqlite.payment_books import SqlitePaymentBooks
from mintscope.storage.sqlite.payments import SqlitePaymentStore

log = structlog.get_logger()

AUDIT_S: Final = 60.0
DAY_MS: Final = 86_400_000
PAYMENT_LAMPORTS: Final = 10_001
WALLET_LAMPORTS_MIN: Final = 890_880  # a wallet with less than the rent of its account cannot pay


class CannotSell(Exception):
    """The configuration cannot sell; the message says why and how to mend it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sales:
    """Everything that sells in this process."""

    config: PaymentsConfig
    cashier: Cashier
    board: PriceBoard
    chain: RpcPaymentChain
    store: SqlitePaymentStore
    books: SqlitePaymentBooks
    auditor: Auditor
    reconciler: Reconciler
    clock: Clock

    async def expect_ready(self) -> None:
        """Look at the payment token, the treasury and the fee payer before anything is sold.

        A node that does not answer is no reason to refuse those who have credits.
        Raises    UnusablePaymentToken, CannotSell
        """
        try:
            await self.chain.expect_usable()
            expect_funds(await self._lamports(), self.cashier.terms.fee_payer)
        except ChainUnavailable as trouble:
            log.warning("nothing is sold until the node answers", reason=str(trouble))
        with suppress(PriceUnavailable):
            await self.board.tariff()  # so that the first client finds a price

    async def expect_chain(self) -> None:
        """Raise ServiceUnavailable if the node does not answer."""
        try:
            await self.chain.lamports(self.cashier.terms.fee_payer)
        except ChainUnavailable as trouble:
            raise ServiceUnavailable("the chain's node does not answer") from trouble

    async def run(self) -> None:
        """Keep what was sold true, until cancelled; a bug in it is told, and it goes on."""
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.reconciler.run(asyncio.sleep, _tell_trouble))
                    tasks.create_task(self._audit_for_ever())
                    tasks.create_task(self._post_prices())
            except* Exception:
                log.exception("looking after payments failed")
            await asyncio.sleep(AUDIT_S)

    async def _post_prices(self) -> None:
        """Keep the board fresh, so that no client waits for a price or finds an old one."""
        while True:
            with suppress(PriceUnavailable):
                await self.board.tariff()
            await asyncio.sleep(RETRY_S)

    async def _audit_for_ever(self) -> None:
        day = -1
        while True:
            today = self.clock.now() // DAY_MS
            try:
                await self._look_around()
                await self._audit(full=today != day)
                day = today
            except (ChainUnavailable, ServiceUnavailable) as trouble:
                AUDITS.labels("failed").inc()
                log.warning("no audit of payments", reason=str(trouble))
            await asyncio.sleep(AUDIT_S)

    async def _audit(self, *, full: bool) -> None:
        violations = await self.auditor.audit(full=full)
        AUDITS.labels("violated" if violations else "sound").inc()
        for invariant in Invariant:
            found = [each for each in violations if each.invariant is invariant]
            VIOLATIONS.labels(invariant.name.lower()).set(len(found))
        _tell_violations(violations)
        SALES_OPEN.set(await self.books.why_stopped() is None)
        if full:
            await self.store.forget_reports(UnixMs(self.clock.now() - REDELIVERY_MS))

    async def _look_around(self) -> None:
        count, oldest = await self.books.pending()
        PENDING_PAYMENTS.set(count)
        OLDEST_PENDING_S.set(0 if oldest is None else (self.clock.now() - oldest) / 1000)
        await self._lamports()

    async def _lamports(self) -> int:
        lamports = await self.chain.lamports(self.cashier.terms.fee_payer)
        FEE_PAYER_LAMPORTS.set(lamports)
        if lamports < self.config.fee_payer_lamports_min:
            log.warning("the fee payer runs low", lamports=lamports)
        return lamports


def expect_funds(lamports: int, fee_payer: Wallet) -> None:
    """Expect the fee payer to afford a payment.

    Raises    CannotSell
    """
    needed = WALLET_LAMPORTS_MIN + PAYMENT_LAMPORTS
    if lamports < needed:
        raise CannotSell(
            f"fee payer {fee_payer}: expected at least {needed} lamports; it has {lamports}:"
            " send it some SOL, 0.1 lasts for 10,000 payments"
        )


@asynccontextmanager
async def open_sales(
    config: Config, *, root: bytes, reader: LogReader, clock: Clock
) -> AsyncIterator[Sales]:
    """Build what sells.

    root      every secret is derived from it: the pepper of credit tokens
    Raises    CannotSell, UnusableKeypair
    """
    payments = config.payments
    fee_payer = fee_payer_of(payments)
    terms = terms_of(payments, fee_payer)
    async with AsyncExitStack() as stack:
        endpoint = payment_endpoint(config.chain)
        chain = await stack.enter_async_context(RpcPaymentChain(endpoint, terms=terms, clock=clock))
        source = UsableToken(
            TrueClock(price_source(payments, endpoint, reader, stack), chain.block_time_s, clock),
            chain.expect_usable,
            clock,
        )
        store = SqlitePaymentStore(config.data_dir / MONEY_FILE)
        stack.push_async_callback(store.close)
        books = SqlitePaymentBooks(config.data_dir / MONEY_FILE)
        stack.callback(books.close)
        reconciler = Reconciler(store=store, chain=chain, clock=clock)
        yield Sales(
            config=payments,
            cashier=Cashier(
                terms=terms,
                secrets=Secrets.derive(root),
                fee_payer=fee_payer,
                store=store,
                chain=chain,
                clock=clock,
                entropy=os.urandom,
                budget=Budget(
                    failures=payments.failures_per_hour_max,
                    fee_lamports=payments.fees_per_hour_lamports,
                ),
            ),
            board=PriceBoard(
                source,
                decimals=terms.decimals,
                clock=clock,
                sol=SolPrice(reader),
                fee_share_max=payments.fee_share_max,
            ),
            chain=chain,
            store=store,
            books=books,
            auditor=Auditor(books=books, history=chain, reconciler=reconciler, clock=clock),
            reconciler=reconciler,
            clock=clock,
        )


def terms_of(payments: PaymentsConfig, fee_payer: Keypair) -> Terms:
    """Return the terms of every payment.

    Raises    CannotSell
    """
    assert payments.pay_to is not None, "the configuration is checked when it is read"
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
    """Return the key that pays the network fees.

    Raises    UnusableKeypair
    """
    if payments.fee_payer_key is not None:
        return parse_keypair(payments.fee_payer_key.get_secret_value())
    assert payments.fee_payer_file is not None, "the configuration is checked when it is read"
    return read_keypair(payments.fee_payer_file)


def payment_endpoint(chain: ChainConfig) -> Endpoint:
    """Return the node that payments are settled through."""
    return Endpoint(
        url=chain.rpc_url.get_secret_value(),
        headers={name: value.get_secret_value() for name, value in chain.rpc_headers.items()},
    )


def vaults_of(payments: PaymentsConfig) -> list[Vaults]:
    """Return the pools whose reserves count."""
    pairs = (pool.partition(":") for pool in payments.pools)
    return [Vaults(Wallet(base), Wallet(quote)) for base, _, quote in pairs]


def price_source(
    payments: PaymentsConfig, endpoint: Endpoint, reader: LogReader, stack: AsyncExitStack
) -> PriceSource:
    """Return the configured source; *stack* closes what it opens."""
    match payments.price_source:
        case "pinned":
            return PinnedPrice(payments.price_usd)
        case "feed":
            assert payments.price_feed_url is not None
            feed = FeedPrice(payments.price_feed_url.get_secret_value())
            stack.push_async_callback(feed.aclose)
            return feed
        case "market":
            asset = Mint(payments.asset)
            reserves = RpcReserves(endpoint, base=asset, pools=vaults_of(payments))
            stack.push_async_callback(reserves.aclose)
            return MarketPrice(reader, reserves.read, asset=asset, decimals=payments.decimals)


def _tell_trouble(trouble: Exception) -> None:
    log.warning("payments could not be looked at", reason=str(trouble))


def _tell_violations(violations: Collection[Violation]) -> None:
    for violation in violations:
        log.error(
            "the books of money contradict themselves",
            invariant=violation.invariant,
            subject=violation.subject,
        )
