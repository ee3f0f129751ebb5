"""The treasury's history on chain, and how far it has been compared.

A history is listed from its newest end: it is scanned down to where the scan before began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import msgspec

from mintscope.base.primitives import Mint, Signature, UnixMs


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what touched the treasury, finalized, newest first.

    succeeded    those transactions that did
    newest       of all on the page, those that failed too; None where there are no more
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
        """Return a page of what came after *after* and before *before*; None for no such bound.

        asset    whose treasury account; None: the payment token's
        """

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        """Say of each whether it is a payment that we signed: the fee is ours, and it paid us.

        None if that is unknown: it is not there yet, or not to be read.
        """

    async def recorded(self, signature: Signature) -> bytes | None:
        """Return the transaction as it was sent, None where there is none to be read."""

    async def finalized_height(self) -> int:
        """Return the height of the newest block that no fork can take back."""


class ScanScope(StrEnum):
    """How much of the history a scan is for."""

    NEW = "new"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Scan:
    """How far a scan has come.

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
        """Return the scan at its end: what is to come begins where it began."""
        mark = (self.head or self.mark) if scope is ScanScope.NEW else None
        return Scan(mark=mark, finished_at=now)


class DoubtKind(StrEnum):
    """Differences of chain and books so far."""

    ARRIVED = "arrived"  # it touched the treasury, and is not issued
    ISSUED = "issued"  # it is issued, and not final though its time is over
