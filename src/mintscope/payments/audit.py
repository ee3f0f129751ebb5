"""Audits the books: checks invariants, reads the treasury's history, and finds orphans.

An orphan is a payment to this service that is on chain but has no row, because a backup was
restored.  If an orphan carries a quote of this service, its purchase is known, and sales continue.
Its buyer can claim the purchase at any time, or an operator can settle the orphan permanently.

A scan reads the treasury's history backwards: from the newest transaction to the transaction at
which the previous scan began, or to the oldest transaction.

Every method of the books raises ServiceUnavailable if the store does not answer.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple, Protocol

import msgspec

from mintscope.credits import invariants
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS
from mintscope.payments.payment import Payment, State
from mintscope.payments.ports import Budget, ChainUnavailable, Conduct, FeesAtRisk
from mintscope.payments.protocol.envelope import (
    FEE_PAYER_AT,
    RefusalReason,
    Refused,
    Resource,
    ResourceKind,
    Terms,
    open_envelope,
)
from mintscope.payments.protocol.memo import find_flaw, has_form_of_ours
from mintscope.payments.protocol.verify import (
    FEE_LAMPORTS_USUAL,
    Asked,
    Verified,
    find_memo,
    transferred,
    verify,
)
from mintscope.payments.reconciler import BATCH, Reconciler


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """A page of finalized transactions that touched the treasury, newest first.

    succeeded    the signatures of the successful transactions
    newest       the newest transaction of the page, even if it failed; None: the page is empty
    oldest       the oldest transaction of the page, even if it failed; None: the page is empty
    """

    succeeded: Sequence[Signature]
    newest: Signature | None
    oldest: Signature | None


class TreasuryHistory(Protocol):
    """Reads the treasury's transactions on chain.

    Every method raises ChainUnavailable, and ends within its own time limit.
    """

    async def arrivals(
        self, asset: Mint | None = None, *, after: Signature | None, before: Signature | None
    ) -> Arrivals:
        """Return the newest page of transactions that touched the treasury account.

        asset            the token of the treasury account; None: the payment token
        after, before    only transactions between these two; None: no bound
        """

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        """Return, for each signature, whether it is a payment to this service, which pays the fee.

        The value is None if this is unknown, because the node does not answer or does not have the
        transaction, or because the transaction cannot be read.
        """

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the bytes of the transaction, as its sender signed it.

        Return None if it is not found or cannot be read.
        """

    async def finalized_height(self) -> int:
        """Return the height of the newest finalized block."""


class ScanScope(StrEnum):
    """The transactions of a treasury account that a scan reads: the new ones, or all."""

    NEW = "new"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Scan:
    """The progress of a scan of the transactions that touched a treasury account, newest first.

    mark           the transaction at which this scan ends, because the previous scan began there;
                   None: this scan ends with the oldest transaction
    head           the newest transaction when this scan began; None before the first page
    cursor         the oldest transaction read so far; None before the first page
    finished_at    of a scan of new transactions: the time when the last complete scan ended; of the
                   whole history: the time when this scan ended; None: it has not ended yet
    """

    mark: Signature | None = None
    head: Signature | None = None
    cursor: Signature | None = None
    finished_at: UnixMs | None = None

    def go_on(self, page: Arrivals) -> "Scan":
        """Return the progress of the scan after *page* was read."""
        return replace(self, head=self.head or page.newest, cursor=page.oldest)

    def end(self, now: UnixMs, *, scope: ScanScope) -> "Scan":
        """Return the finished scan; the next scan of new transactions ends where this one began."""
        mark = (self.head or self.mark) if scope is ScanScope.NEW else None
        return Scan(mark=mark, finished_at=now)


class DoubtKind(StrEnum):
    """The kind of an unresolved difference between the chain and the books."""

    ARRIVED = "arrived"  # a transaction touched the treasury, but no payment is issued
    ISSUED = "issued"  # a payment is issued, but did not become final in time


class SoldItem(NamedTuple):
    """An item that a payment can buy: a bundle of credits or an answer.

    resource        the resource of the item; a kind stands for any resource of that kind
    credit_count    the number of credits in the bundle, or the price of the answer in credits
    """

    resource: Resource | ResourceKind
    credit_count: int

    @property
    def name(self) -> Resource:
        """The resource that was bought; only the path of its kind if no more is known."""
        return (
            Resource(self.resource.path)
            if isinstance(self.resource, ResourceKind)
            else self.resource
        )


class Recognised(NamedTuple):
    """A payment to us, as its transaction on chain shows it, and the item that it bought."""

    verified: Verified
    offer: SoldItem


Recognise = Callable[[bytes], Awaitable[Recognised | None]]  # None: not a payment to us


class Orphan(msgspec.Struct, frozen=True):
    """A payment to us that is on chain, and had no row when an audit found it.

    `payer`, `amount`, `asset` and `bought` are None if the transaction was not found, could not be
    read, or was not recognised as a payment for a sold item.

    amount      the atoms that were paid
    bought      the purchase, or the path of its kind if only the kind is known
    found_at    the time when an audit first found the payment
    """

    signature: Signature
    payer: Wallet | None
    amount: int | None
    asset: Mint | None
    bought: Resource | None
    found_at: UnixMs


class Acknowledgement(Enum):
    """The result of an attempt to settle an orphan."""

    DONE = auto()
    DONE_BEFORE = auto()
    HAS_ROW = auto()  # the payment now has a row
    UNKNOWN = auto()  # no audit has found the payment


class TreasuryBooks(Protocol):
    """Stores doubts, orphans, and the progress of scans of the treasury's history.

    A doubt is a difference between the chain and the books that may only be temporary.
    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        """Return the progress of a scan of the treasury's history; None if it has not begun.

        scope    the scan of the new transactions, or of the whole history
        asset    the token of the scanned treasury account; None: the payment token
        """

    async def keep_scan(self, scope: ScanScope, scan: Scan, asset: Mint | None = None) -> None:
        """Store *scan* as the progress of a scan of the treasury's history.

        scope    the scan of the new transactions, or of the whole history
        asset    the token of the scanned treasury account; None: the payment token
        """

    async def doubt(self, kind: DoubtKind, signatures: Sequence[Signature], *, now: UnixMs) -> None:
        """Record that *signatures* are still in doubt, then delete all doubts that are resolved.

        For a transaction that already has a doubt of this kind, count one more check; a doubt of
        another kind is replaced.  If *signatures* is empty, do nothing.
        """

    async def doubts(self, *, now: UnixMs, count_max: int) -> Sequence[Signature]:
        """Return up to *count_max* transactions of the treasury whose check is due, in any order.

        They touched the treasury, but no payment is issued for them (DoubtKind.ARRIVED).  The older
        the doubt, the less often it is due.
        """

    async def dismiss(self, signatures: Sequence[Signature]) -> None:
        """Delete every doubt about *signatures*, and every doubt that is resolved."""

    async def note_orphans(self, orphans: Sequence[Orphan]) -> Sequence[Signature]:
        """Store those of *orphans* that are not stored yet, and leave the others unchanged.

        Return the signatures of those of *orphans* that an operator has settled.
        """


class AuditBooks(Protocol):
    """Checks the books, deletes old spends of credits, and stops sales."""

    async def check(self, *, after_entry: int | None) -> invariants.Checked:
        """Return violations among doubts and new journal entries, and the newest entry's number.

        New entries of the journal are checked with their payments and balances.  If very many are
        new, or if it is not known which are new, only `prove` checks them.

        after_entry   entries after this number are new, and the number is stored; None: entries
                      after the number that was stored last are new
        """

    async def prove(self, *, now: UnixMs, begins: bool) -> invariants.Proven:
        """Continue the check of all books by one part, which takes a fraction of a second.

        begins   whether to start a new check of all books if the previous check has finished; the
                 very first check is started in any case
        """

    async def walked(self) -> invariants.Walked:
        """Return the size of the books, the time of their last full check, and the closed month."""

    async def forget_spends(self, *, now: UnixMs, kept_months: int) -> bool:
        """Delete some spends of closed months that are over *kept_months* months before *now*.

        Spends are kept longer if their month was closed in the last 7 days, or if they are not
        added up by day yet.  Return whether more may remain to be deleted.
        """

    async def unsettled(
        self, *, before: UnixMs, height: int, count_max: int
    ) -> Sequence[Signature]:
        """Return up to *count_max* issued payments that should be final, but are not.

        before    only payments that were issued before this time
        height    only payments whose last valid height is below this finalized height
        """

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Stop sales until an operator resumes them; keep the reason of an earlier stop."""


def recognise(
    wire: bytes, offers: Iterable[SoldItem], *, terms: Terms, quote_key: bytes
) -> Recognised | None:
    """Return the payment in *wire* if its memo is our quote for one of *offers*; None otherwise.

    None is also returned if the payment does not meet its quote, or if *wire* is no transaction.
    A quote of any age counts, because its age was checked before the payment was sent.

    terms        the terms of one token; payments in other tokens are not recognised
    quote_key    the key that signs quotes
    """
    envelope = open_envelope(wire)
    if isinstance(envelope, Refused) or str(envelope.accounts[FEE_PAYER_AT]) != terms.fee_payer:
        return None  # checked first, because there may be many offers
    if terms.treasury not in envelope.accounts:
        return None
    memo = find_memo(envelope)
    amount = transferred(envelope)
    if memo is None or amount is None:
        return None
    for offer in offers:
        resource = offer.resource
        flaw = find_flaw(quote_key, memo, terms=terms, resource=resource, amount=amount, now=None)
        if flaw is not None:
            continue
        verified = verify(
            envelope,
            Asked(terms=terms, resource=resource, amount=amount, quote_key=quote_key, now=None),
        )
        return None if isinstance(verified, Refused) else Recognised(verified, offer)
    return None


def quote_of(wire: bytes, known: Iterable[Terms]) -> bytes | None:
    """Return the memo of *wire* if it has the form of our quotes, and we paid the fee.

    None is returned if *wire* does not name a treasury and its fee payer from *known*, the terms of
    all tokens.
    """
    envelope = open_envelope(wire)
    if isinstance(envelope, Refused):
        return None
    fee_payer = str(envelope.accounts[FEE_PAYER_AT])
    if not any(
        each.fee_payer == fee_payer and each.treasury in envelope.accounts for each in known
    ):
        return None
    memo = find_memo(envelope)
    return memo if memo is not None and has_form_of_ours(memo) else None


WALK_S: Final = 6.0  # seconds that each audit spends on all books; there is one audit a minute
PAGES_MAX: Final = {ScanScope.NEW: 8, ScanScope.ALL: 1}  # most pages per token in one audit


def compare(
    ours: Sequence[Payment], sponsored: Mapping[Signature, bool | None]
) -> list[invariants.Violation]:
    """Return the violations among transactions that touched the treasury.

    Payments to the service that have no row come first, then final payments that paid too little.

    ours         the payments that have a row
    sponsored    for each transaction without a row, whether it is a payment to the service; None:
                 unknown, so it is no violation
    """
    unknown = [signature for signature, is_ours in sponsored.items() if is_ours]
    short = [each.signature for each in ours if _is_short(each)]
    return [
        *(
            invariants.Violation(invariants.Invariant.LANDED_IS_KNOWN, signature)
            for signature in unknown
        ),
        *(
            invariants.Violation(invariants.Invariant.LANDED_IS_ISSUED, signature)
            for signature in short
        ),
    ]


def _is_short(payment: Payment) -> bool:
    return payment.final and payment.reason is RefusalReason.UNDERPAID


@dataclass(slots=True, kw_only=True)
class Auditor:
    """Compares the treasury's transactions with the books, and checks the invariants of the books.

    Each audit examines new transactions and new journal entries, and a part of all books.

    assets               tokens whose treasury accounts are compared with the books; None: the
                         payment token
    spends_kept_months   months after which spends of closed months are deleted; None: never
    """

    books: AuditBooks
    recognise: Recognise
    treasury: TreasuryBooks
    history: TreasuryHistory
    reconciler: Reconciler
    clock: Clock
    assets: Sequence[Mint | None] = (None,)
    spends_kept_months: int | None = None
    _entry_mark: int | None = None  # None: this process has finished no audit yet

    async def audit(
        self, *, full: bool = False, is_start: bool = False
    ) -> Sequence[invariants.Violation]:
        """Return every violation that is found, and stop sales if there is one.

        Payments that landed unnoticed are issued first, because a late payment is not a violation.
        If no node answers, the books themselves are still checked.

        full        whether to start a comparison of the treasury's whole history, and a check of
                    all books; until an audit of this process has finished, audits start the check
                    even if *full* is False
        is_start    whether the process has just started: then no check of all books is started if
                    one has finished today
        Raises      ChainUnavailable if no node answered, and no violation was found;
                    ServiceUnavailable if the store does not answer
        """
        violations: list[invariants.Violation] = []
        trouble: ChainUnavailable | None = None
        try:
            await self._audit_chain(violations, full=full)
        except ChainUnavailable as caught:
            trouble = caught
        checked = await self.books.check(after_entry=self._entry_mark)
        violations += checked.violations
        begins = full or self._entry_mark is None
        violations += await self._walk(begins=begins and not (is_start and await self._is_walked()))
        # Last: if the walk fails, the next audit checks the same entries again.
        self._entry_mark = checked.entry_mark
        if violations:
            await self._stop(violations[0])
        elif trouble is not None:
            raise trouble
        return violations

    async def _is_walked(self) -> bool:
        """Return whether a check of all books has finished today."""
        finished_at = (await self.books.walked()).finished_at
        return finished_at is not None and finished_at // DAY_MS == self.clock.now() // DAY_MS

    async def _walk(self, *, begins: bool) -> list[invariants.Violation]:
        """Check the books for at most WALK_S seconds, and return the violations found.

        The check continues where it stopped before.  If it reaches the end early, delete old spends
        in the time left, unless `spends_kept_months` is None.

        begins    whether to start the next check if the previous one has reached the end
        """
        until_s = self.clock.monotonic_s() + WALK_S
        part = await self.books.prove(now=self.clock.now(), begins=begins)
        violations = [*part.violations]
        while not part.is_finished and self.clock.monotonic_s() < until_s:
            part = await self.books.prove(now=self.clock.now(), begins=False)
            violations += part.violations
        months = self.spends_kept_months
        may_be_more = part.is_finished
        while months is not None and may_be_more and self.clock.monotonic_s() < until_s:
            may_be_more = await self.books.forget_spends(now=self.clock.now(), kept_months=months)
        return violations

    async def _audit_chain(self, violations: list[invariants.Violation], *, full: bool) -> None:
        if full:  # before any request to the node, which may not answer
            for asset in self.assets:
                scan = await self.treasury.scan(ScanScope.ALL, asset)
                if scan is None or scan.finished_at is not None:
                    await self.treasury.keep_scan(ScanScope.ALL, Scan(), asset)
        await self._settle_issued()
        doubted = await self.treasury.doubts(now=self.clock.now(), count_max=BATCH)
        await self._compare(doubted, violations)
        for asset in self.assets:
            new = await self.treasury.scan(ScanScope.NEW, asset) or Scan()
            await self._scan(ScanScope.NEW, asset, new, violations)
            scan = await self.treasury.scan(ScanScope.ALL, asset)
            if scan is not None and scan.finished_at is None:
                await self._scan(ScanScope.ALL, asset, scan, violations)

    async def _settle_issued(self) -> None:
        """Look up issued payments that should be final on chain; doubt each that is not final."""
        height = await self.history.finalized_height()
        before = UnixMs(self.clock.now() - invariants.SETTLED_AFTER_MS)
        late = await self.books.unsettled(before=before, height=height, count_max=BATCH)
        if late:
            await self.reconciler.look_at(late)
            # This also deletes the doubts about payments that are final by now.
            await self.treasury.doubt(DoubtKind.ISSUED, late, now=self.clock.now())

    async def _scan(
        self,
        scope: ScanScope,
        asset: Mint | None,
        scan: Scan,
        violations: list[invariants.Violation],
    ) -> None:
        """Compare up to PAGES_MAX pages of a scan with the books; store the progress of the scan.

        Add the violations to *violations*.
        """
        for _ in range(PAGES_MAX[scope]):
            page = await self.history.arrivals(asset, after=scan.mark, before=scan.cursor)
            if page.oldest is None:
                ended = scan.end(self.clock.now(), scope=scope)
                await self.treasury.keep_scan(scope, ended, asset)
                return
            for start in range(0, len(page.succeeded), BATCH):
                await self._compare(page.succeeded[start : start + BATCH], violations)
            scan = scan.go_on(page)
            await self.treasury.keep_scan(scope, scan, asset)

    async def _compare(
        self, arrived: Sequence[Signature], violations: list[invariants.Violation]
    ) -> None:
        """Issue the payments among *arrived*, at most BATCH transactions that touched the treasury.

        Add the violations to *violations*, and stop sales if there is one.  Store orphans and
        doubts.
        """
        if not arrived:
            return
        ours = {each.signature: each for each in await self.reconciler.issue_arrived(arrived)}
        foreign = [signature for signature in arrived if signature not in ours]
        sponsored = await self.history.sponsored(foreign) if foreign else {}
        settled = await self._note_orphans([s for s, is_ours in sponsored.items() if is_ours])
        reported = {s: is_ours and s not in settled for s, is_ours in sponsored.items()}
        found = compare(list(ours.values()), reported)
        if found:  # stop sales before any doubt is deleted
            await self._stop(found[0])
            violations += found
        await self.treasury.dismiss([s for s, is_ours in sponsored.items() if is_ours is not None])
        doubtful = [s for s, is_ours in sponsored.items() if is_ours is None] + [
            s for s, each in ours.items() if each.state is not State.ISSUED and not _is_short(each)
        ]
        await self.treasury.doubt(DoubtKind.ARRIVED, doubtful, now=self.clock.now())

    async def _note_orphans(self, signatures: Sequence[Signature]) -> Collection[Signature]:
        """Store as orphans the payments *signatures*, which have no row.

        Return those that are no violation: they have a quote of this service, or were settled by an
        operator.
        """
        if not signatures:
            return ()
        now = self.clock.now()
        orphans = [await self._read_orphan(signature, now) for signature in signatures]
        settled = await self.treasury.note_orphans(orphans)
        return {*settled, *(each.signature for each in orphans if each.bought is not None)}

    async def _read_orphan(self, signature: Signature, now: UnixMs) -> Orphan:
        wire = await self.history.recorded(signature)
        found = None if wire is None else await self.recognise(wire)
        return Orphan(
            signature=signature,
            payer=None if found is None else found.verified.envelope.payer,
            amount=None if found is None else found.verified.amount,
            asset=None if found is None else found.verified.asset,
            bought=None if found is None else found.offer.name,
            found_at=now,
        )

    async def _stop(self, violation: invariants.Violation) -> None:
        why = f"{violation.invariant} ({violation.subject})"
        await self.books.stop_sales(now=self.clock.now(), why=why)


PAUSED: Final = "paused by an administrator"  # the reason of a manual pause begins like this
_STRANGER: Final = Conduct(
    reverted=0, pending=0, sold=0, fee_lamports=0, sold_today=0, reverted_today=0
)
_BUYER: Final = Conduct(
    reverted=0, pending=0, sold=1, fee_lamports=0, sold_today=1, reverted_today=0
)


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why sales are closed, and the payers to whom they are closed.

    why           the reason, which clients may read
    is_for_all    True: closed to all payers; False: to payers without a purchase in 24 hours
    """

    why: str
    is_for_all: bool


def violation_of(why_stopped: str | None) -> str | None:
    """Return the audit's reason for stopping sales; None if no audit stopped them."""
    is_by_hand = why_stopped is None or why_stopped.startswith(PAUSED)
    return None if is_by_hand else why_stopped


def find_closure(at_risk: FeesAtRisk, budget: Budget, *, is_stopped: bool) -> Closure | None:
    """Return the closure of sales, as seen by a payment with the usual network fee.

    Return None if sales are open to everyone.

    is_stopped   whether an audit or an administrator has stopped sales
    """
    if is_stopped:
        return Closure(
            why="stopped by an audit or an administrator: existing credits keep working",
            is_for_all=True,
        )
    if at_risk.fund is not None and at_risk.fund < budget.fund_lamports_min:
        why = f"the fee payer has {at_risk.fund} lamports left for fees, which is too little"
        return Closure(why=why, is_for_all=True)
    if not at_risk.allow(budget, _BUYER, fee_lamports=FEE_LAMPORTS_USUAL):
        why = "the budget for network fees of this hour, or of pending payments, is used up"
        return Closure(why=why, is_for_all=True)
    if not at_risk.allow(budget, _STRANGER, fee_lamports=FEE_LAMPORTS_USUAL):
        why = (
            "to payers that bought nothing within 24 hours, because their share of the fee budget"
            " is used up"
        )
        return Closure(why=why, is_for_all=False)
    return None
