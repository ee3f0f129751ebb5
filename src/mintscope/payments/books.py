"""Ports of the books and of the treasury.

The ports of the books of payments, one for each caller.

Every verb raises ServiceUnavailable when the store does not answer.

The treasury's history on chain, and how far it has been compared.

A history is listed from its newest end: it is scanned down to where the scan before began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import msgspec

from mintscope.credits.invariants import Checked, Proven, Walked
from mintscope.kit.primitives import Mint, Signature, UnixMs


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """A page of finalized transactions that touched the treasury, newest first.

    succeeded    those transactions that did
    newest       of all on the page, those that failed too; None if there are no more
    oldest       likewise
    """

    succeeded: Sequence[Signature]
    newest: Signature | None
    oldest: Signature | None


class TreasuryHistory(Protocol):
    """Raises ChainUnavailable from every verb; every verb ends within its own time limit."""

    async def arrivals(
        self, asset: Mint | None = None, *, after: Signature | None, before: Signature | None
    ) -> Arrivals:
        """Return a page of arrivals after *after* and before *before*; None is no bound.

        asset    whose treasury account; None: the payment token's
        """

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        """Return whether each is a payment that we signed: we pay the fee, and it paid us.

        None if that is unknown: it is not there yet, or not to be read.
        """

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the transaction as it was sent, None if there is none to be read."""

    async def finalized_height(self) -> int:
        """Return the height of the newest block that no fork can take back."""


class ScanScope(StrEnum):
    """The part of the history that a scan covers."""

    NEW = "new"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Scan:
    """The progress of a scan.

    mark           where the one before began, and this one ends; None for the beginning of time
    head           the newest arrival when it began; None before its first page
    cursor         the oldest arrival it has come down to
    finished_at    when one last came to its end
    """

    mark: Signature | None = None
    head: Signature | None = None
    cursor: Signature | None = None
    finished_at: UnixMs | None = None

    def go_on(self, page: Arrivals) -> "Scan":
        """Return the scan after it has read *page*."""
        return replace(self, head=self.head or page.newest, cursor=page.oldest)

    def end(self, now: UnixMs, *, scope: ScanScope) -> "Scan":
        """Return the finished scan, from whose start the next scan continues."""
        mark = (self.head or self.mark) if scope is ScanScope.NEW else None
        return Scan(mark=mark, finished_at=now)


class DoubtKind(StrEnum):
    """Kinds of unresolved differences between chain and books."""

    ARRIVED = "arrived"  # it touched the treasury, and is not issued
    ISSUED = "issued"  # it is issued, and not final though its time is over


class AuditBooks(Protocol):
    """The books as the auditor checks them."""

    async def check(self, *, after_entry: int | None) -> Checked:
        """Compare doubts, and payments, entries and balances after the entry *after_entry*.

        after_entry   None: doubts alone
        """

    async def prove(self, *, now: UnixMs, begins: bool) -> Proven:
        """Continue the check of all books by one part, which takes a moment.

        begins   begin a walk if the one before has come to its end
        """

    async def walked(self) -> Walked:
        """Return the progress of the check of all books."""

    async def forget_spends(self, *, now: UnixMs, kept_months: int) -> bool:
        """Delete spends of months closed over *kept_months* ago; return whether more may remain."""

    async def unsettled(
        self, *, before: UnixMs, height: int, count_max: int
    ) -> Sequence[Signature]:
        """Return payments issued before *before*, due to land by *height*, that are not final."""

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Stop sales until an operator resumes them; the first reason is kept."""


class TreasuryBooks(Protocol):
    """The comparison of the treasury's history with payments, and the payments in doubt."""

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        """Return the progress of the scan of *scope*, None if there is none.

        asset    whose treasury account is scanned; None: the payment token's
        """

    async def keep_scan(self, scope: ScanScope, scan: Scan, asset: Mint | None = None) -> None:
        """Store the progress of the scan of *scope*."""

    async def doubt(self, kind: DoubtKind, signatures: Sequence[Signature], *, now: UnixMs) -> None:
        """Record that *signatures* were looked at in vain, except those that are settled by now."""

    async def doubts(self, *, now: UnixMs, count_max: int) -> Sequence[Signature]:
        """Return the arrivals due for a check; each waits as long as its doubt has lasted."""

    async def dismiss(self, signatures: Sequence[Signature]) -> None:
        """Forget every doubt about *signatures*, and every doubt that is settled by now."""


class AuditLease(Protocol):
    """The lease of the audit."""

    async def is_auditor(self) -> bool:
        """Return whether this process is the one that audits."""
