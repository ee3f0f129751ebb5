"""Background work on payments, in the api process.

always       the reconciler finishes interrupted payments; prices are read; 402s get new blockhashes
every 60 s   the balance of the fee payer is read; new rows are audited, and all rows once a day.
             Sales stop on a violation, and while the fee payer has too few lamports
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog

from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit import metrics
from mintscope.kit.clock import Clock
from mintscope.kit.errors import PriceUnavailable, ServiceUnavailable
from mintscope.kit.primitives import Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS
from mintscope.payments.audit import (
    Auditor,
    Closure,
    Scan,
    ScanScope,
    find_closure,
)
from mintscope.payments.payment import Payment
from mintscope.payments.ports import Budget, ChainUnavailable, PaymentChain, PaymentStore
from mintscope.payments.price_cache import RETRY_S, PriceCache
from mintscope.payments.pricing import is_clock_right
from mintscope.payments.reconciler import REDELIVERY_MS, REFRESH_SLOTS, Reconciler
from mintscope.payments.store.books import SqlPaymentBooks

log = structlog.get_logger()

AUDIT_S: Final = 60.0
NOT_YET: Final = -1


@dataclass(kw_only=True)
class PaymentMaintenance:
    """Works on the payments of one installation in the background.

    It finishes interrupted payments, reads prices, audits the books and watches the fee payer.

    is_auditor      returns whether this process makes the audits
    slot_s          returns the current duration of a slot, in seconds
    lamports_min    a warning is logged if the fee payer has fewer lamports, but enough for sales
    closure         the closure of sales as of the last check; None: sales are open, or no check has
                    been made yet
    """

    chain: PaymentChain
    store: PaymentStore
    books: SqlPaymentBooks
    is_auditor: Callable[[], Awaitable[bool]]
    auditor: Auditor
    reconciler: Reconciler
    price_caches: Sequence[PriceCache]
    clock: Clock
    slot_s: Callable[[], float]
    fee_payer: Wallet
    lamports_min: int
    budget: Budget
    closure: Closure | None = None
    _no_audit: str = ""  # the reason why the last audit failed; empty if it did not fail
    _day: int = NOT_YET  # the UTC day of the last audit; the first audit of each day is full
    _reported: set[Signature] = field(default_factory=set)  # the orphans that were logged
    _forgotten_on: int = NOT_YET  # the last UTC day on which old reports were deleted
    _started_s: float = field(init=False)  # Unix time when monotonic time was 0

    def __post_init__(self) -> None:
        self._started_s = self.clock.now() / 1000 - self.clock.monotonic_s()

    async def run(self) -> None:
        """Do the background work until cancelled; log unexpected errors and continue."""
        while True:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.reconciler.run(asyncio.sleep, _log_trouble))
                    tasks.create_task(self._look_forever())
                    tasks.create_task(self._refresh_prices())
                    tasks.create_task(self._refresh_offer())
                    tasks.create_task(self._watch_sales())
            except* Exception:
                metrics.TASK_FAILURES.labels("sales").inc()
                log.exception("maintenance of payments failed")
            await asyncio.sleep(AUDIT_S)

    async def look(self) -> None:
        """Store the fee payer's balance, audit the books, and update the metrics of the books.

        If the chain or the store does not answer, log this and continue.
        """
        try:
            await self.look_at_fees()
        except (ChainUnavailable, ServiceUnavailable) as trouble:
            log.warning("the fee payer cannot be read", reason=str(trouble))
        try:
            await self._audit()
        except ServiceUnavailable as trouble:
            metrics.AUDITS.labels("failed").inc()
            self._no_audit = f"{trouble} {trouble.__cause__ or ''}".strip()
            log.warning("no audit of payments", reason=self._no_audit)
        else:
            self._no_audit = ""

    async def expect_audits(self) -> None:
        """Raise ServiceUnavailable if the last audit of the books failed."""
        if self._no_audit:
            raise ServiceUnavailable(f"the last audit of the books failed: {self._no_audit}")

    async def look_at_fees(self) -> int:
        """Read and return the fee payer's balance in lamports; log an error if it is too low.

        Also store the part that is not reserved for the fees of pending payments.
        Raises ChainUnavailable, ServiceUnavailable.
        """
        # Before the balance is read: fees of payments resolved after the mark are then subtracted,
        # in case the balance does not show them yet.
        mark = await self.books.fund_mark()
        lamports = await self.chain.lamports(self.fee_payer)
        await self.books.fill_fund(lamports, mark=mark)
        metrics.FEE_PAYER_LAMPORTS.set(lamports)
        if await self._is_short():
            log.error("sales wait for the fee payer to have more", lamports=lamports)
        elif lamports < self.lamports_min:
            log.warning("the fee payer runs low", lamports=lamports)
        return lamports

    async def _look_forever(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(AUDIT_S)

    async def _refresh_prices(self) -> None:
        """Read new prices in time, so that no client waits for a price or gets an old one."""
        while True:
            for each in self.price_caches:
                with suppress(PriceUnavailable):
                    await each.price_list()
            await asyncio.sleep(RETRY_S)

    async def _refresh_offer(self) -> None:
        """Keep the blockhash for 402s recent, so that no 402 waits for a node."""
        while True:
            with suppress(ChainUnavailable):  # if no request succeeds, 402s have no blockhash
                await self.chain.refresh_offer()
            await asyncio.sleep(REFRESH_SLOTS * self.slot_s())

    async def _audit(self) -> None:
        if await self.is_auditor():
            await self._audit_books()
        await self._measure_books()

    async def _audit_books(self) -> None:
        today = self.clock.now() // DAY_MS
        try:
            violations = await self.auditor.audit(
                full=today != self._day, is_start=self._day == NOT_YET
            )
        except ChainUnavailable as trouble:
            metrics.AUDITS.labels("blind").inc()
            log.warning("the treasury cannot be compared", reason=str(trouble))
        else:
            metrics.AUDITS.labels("violated" if violations else "sound").inc()
            _log_violations(violations)
        # Also if no node answered: the full comparison has begun, and later audits continue it.
        self._day = today
        if today != self._forgotten_on:
            await self._forget_reports(today)

    async def _forget_reports(self, today: int) -> None:
        """Delete the bodies of reports whose payments are final and began a day ago or earlier.

        A payment counts as a day old only by both the wall clock and the monotonic clock.  If no
        node answers, or if the wall clock differs too much from the chain's, delete nothing;
        otherwise store *today* as the day of the last deletion.
        """
        try:
            skew_s = self.clock.now() / 1000 - await self.chain.block_time_s()
        except ChainUnavailable:
            return
        if is_clock_right(skew_s):
            steady = int(self._started_s + self.clock.monotonic_s()) * 1000
            before = min(self.clock.now(), steady) - REDELIVERY_MS
            await self.store.forget_reports(UnixMs(before))
            self._forgotten_on = today

    async def _measure_books(self) -> None:
        await self._tell_orphans()
        count, oldest = await self.books.pending()
        metrics.PENDING_PAYMENTS.set(count)
        metrics.OLDEST_PENDING_S.set(0 if oldest is None else (self.clock.now() - oldest) / 1000)
        scans = [await self.books.scan(ScanScope.NEW, each) for each in self.auditor.assets]
        metrics.TREASURY_AGE_S.set(max(self._age_s(each) for each in scans))
        await self.look_at_sales()

    def _age_s(self, scan: Scan | None) -> float:
        if scan is None or scan.finished_at is None:
            return float("inf")
        return (self.clock.now() - scan.finished_at) / 1000

    async def _watch_sales(self) -> None:
        while True:
            with suppress(ServiceUnavailable):  # the next audit reports that the store failed
                await self.look_at_sales()
            await asyncio.sleep(RETRY_S)

    async def look_at_sales(self) -> None:
        """Find out whether sales are closed, store the result in `closure`, and log changes."""
        is_stopped = await self.books.why_stopped() is not None
        at_risk = await self.books.fees_at_risk(now=self.clock.now())
        before = self.closure
        self.closure = find_closure(at_risk, self.budget, is_stopped=is_stopped)
        metrics.SALES_OPEN.set(self.closure is None or not self.closure.is_for_all)
        metrics.SALES_OPEN_TO_NEW_PAYERS.set(self.closure is None)
        was_for_all = None if before is None else before.is_for_all
        if self.closure is not None and self.closure.is_for_all is not was_for_all:
            log.error("sales are closed", reason=self.closure.why)
        elif self.closure is None and before is not None:
            log.info("sales are open again")

    async def _tell_orphans(self) -> None:
        """Log each orphan that is not settled and has no row, once; count orphans in a metric."""
        orphans = await self.books.orphans()
        metrics.ORPHANS.set(len(orphans))
        for each in orphans:
            if each.signature not in self._reported:
                log.warning(
                    "a payment on chain has no row", signature=each.signature, bought=each.bought
                )
        self._reported = {each.signature for each in orphans}

    async def _is_short(self) -> bool:
        fund = await self.books.fund()
        return fund is not None and fund < self.budget.fund_lamports_min


def tell_unreadable(payment: Payment, why: str) -> None:
    """Log an error, and count it: the state of a payment cannot be updated from the chain.

    why   the reason: its transaction cannot be read, or the store refuses the change
    """
    metrics.UNREADABLE.inc()
    log.error("a payment cannot be read", signature=payment.signature, reason=why)


def _log_trouble(trouble: Exception) -> None:
    log.warning("payments could not be read", reason=str(trouble))


def _log_violations(violations: Collection[Violation]) -> None:
    for invariant in Invariant:
        found = [each for each in violations if each.invariant is invariant]
        metrics.VIOLATIONS.labels(invariant.name.lower()).set(len(found))
    for violation in violations:
        log.error(
            "the books of money contradict themselves",
            invariant=violation.invariant,
            subject=violation.subject,
        )
