"""The ports of the books of payments, one for each caller.

Every verb raises ServiceUnavailable when the store does not answer.
"""

from collections.abc import Sequence
from typing import Protocol

from mintscope.base.primitives import Mint, Signature, UnixMs
from mintscope.core.payments.books.invariants import Checked, Proven, Walked
from mintscope.core.payments.books.treasury import DoubtKind, Scan, ScanScope
from mintscope.core.payments.store import FeesAtRisk


class AuditBooks(Protocol):
    """The books as the auditor checks them."""

    async def check(self, *, after_entry: int | None) -> Checked:
        """Compare doubts, and payments, entries and balances after the entry *after_entry*.

        after_entry   None: doubts alone
        """

    async def prove(self, *, now: UnixMs, begins: bool) -> Proven:
        """Go on with the walk through all books by one part, which takes a moment.

        begins   begin a walk if the one before has come to its end
        """

    async def walked(self) -> Walked:
        """Return how far the walk through all books has come."""

    async def forget_spends(self, *, now: UnixMs, kept_months: int) -> bool:
        """Delete some spends of months closed over *kept_months* ago; return if more may be."""

    async def unsettled(
        self, *, before: UnixMs, height: int, count_max: int
    ) -> Sequence[Signature]:
        """Return what was issued before *before*, had to land by *height*, and is not final."""

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Stop sales until an operator resumes them; the first reason is kept."""


class TreasuryBooks(Protocol):
    """How far the treasury's history has been compared, and what is still in doubt."""

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        """Return how far the scan of *scope* has come, None where there was none.

        asset    whose treasury account is scanned; None: the payment token's
        """

    async def keep_scan(self, scope: ScanScope, scan: Scan, asset: Mint | None = None) -> None:
        """Remember how far the scan of *scope* has come."""

    async def doubt(self, kind: DoubtKind, signatures: Sequence[Signature], *, now: UnixMs) -> None:
        """Note that *signatures* were looked at in vain, except those that are settled by now."""

    async def doubts(self, *, now: UnixMs, count_max: int) -> Sequence[Signature]:
        """Return the arrivals to look at again: each after as long as it has been in doubt."""

    async def dismiss(self, signatures: Sequence[Signature]) -> None:
        """Forget every doubt about *signatures*, and every doubt that is settled by now."""


class SalesState(Protocol):
    """Whether anything is sold, and what is under way."""

    async def why_stopped(self) -> str | None:
        """Return why sales are stopped, None while they are open."""

    async def pending(self) -> tuple[int, UnixMs | None]:
        """Return how many payments have no outcome yet, and when the oldest was begun."""

    async def fund(self) -> int | None:
        """Return the lamports not reserved for payments yet, None before the first look."""

    async def fees_at_risk(self, *, now: UnixMs) -> FeesAtRisk:
        """Return what all payers together have burned within the hour, or may burn yet."""


class AuditTurn(Protocol):
    """Which process audits."""

    async def is_auditor(self) -> bool:
        """Say whether this process is the one that audits, of all that run."""


class MaintenanceBooks(SalesState, Protocol):
    """Reads and measures of payment maintenance, and the fee payer's balance that it keeps."""

    async def scan(self, scope: ScanScope, asset: Mint | None = None) -> Scan | None:
        """Return how far the scan of *scope* has come, None where there was none.

        asset    whose treasury account is scanned; None: the payment token's
        """

    async def fund_mark(self) -> int:
        """Return the mark after which the fee payer's balance is to be read."""

    async def fill_fund(self, lamports: int, *, mark: int) -> None:
        """Note what the fee payer had after *mark*."""


class SalesBooks(SalesState, Protocol):
    """Whether anything is sold, as an operator sees and changes it."""

    async def stop_sales(self, *, now: UnixMs, why: str) -> None:
        """Stop sales until an operator resumes them; the first reason is kept."""

    async def resume_sales(self) -> None:
        """Open sales again; what stopped them must be understood first."""
