"""Pasts that administrators ask for on a page: what becomes of each, and the ports to it.

    asked -> estimated -> confirmed -> reading -> done
                                               -> failed
                                       cancelling -> cancelled

The page asks, confirms and cancels; ingest does the rest, one past at a time.  Each step is one
durable statement, so after a kill the next process goes on from there.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from mintscope.base.primitives import Mint, UnixMs, UnixS
from mintscope.base.solana import SourceError
from mintscope.core.market.history.store import Kind

OPEN_MAX: Final = 20  # that wait for something at a time
ENDED_MAX: Final = 100  # that are kept to look at


class IncompletePast(SourceError):
    """The node lists transactions that it does not give."""


class PastIsRead(ValueError):
    """Another process reads a past: one at a time does."""

    def __init__(self) -> None:
        super().__init__(
            "another past is read now, by `mintscope history` or for an administrator: wait until"
            " it is done, or cancel it at /admin/tokens/history"
        )


class AskState(StrEnum):
    """How far what was asked for has come."""

    ASKED = "asked"  # ingest has not looked yet what it costs
    ESTIMATED = "estimated"  # an administrator has not said yes yet
    CONFIRMED = "confirmed"  # it is next, or others are before it
    READING = "reading"
    CANCELLING = "cancelling"  # it was read; ingest drops what it has of it
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Cost(NamedTuple):
    """About what reading takes.

    transactions   to be listed and read
    calls          requests
    seconds        at the pace that is allowed
    """

    transactions: int
    calls: int
    seconds: float


class Survey(NamedTuple):
    """The estimate before anything is read.

    from_time   where the past begins: no earlier than the node reaches back
    addresses   what is read
    """

    from_time: UnixS
    addresses: Mapping[str, Kind]
    cost: Cost


class HistoryAsk(NamedTuple):
    """A past that an administrator asked for.

    from_time   where it begins: as was asked, then no earlier than the node reaches back
    cost        known once it was estimated
    listed      transactions
    read        of them
    words       why it failed, or what it waits for now; empty: nothing is wrong
    ended_at    None while it is open
    """

    ask_id: int
    mint: Mint
    from_time: UnixS
    asked_at: UnixMs
    state: AskState
    cost: Cost | None
    listed: int
    read: int
    words: str
    ended_at: UnixMs | None


class HistoryAsks(Protocol):
    """Actions of administrators on pasts.  Raises ServiceUnavailable from every verb."""

    async def ask(self, mint: Mint, from_time: UnixS, now: UnixMs) -> bool:
        """Ask for the past of *mint*; False where one is open, or OPEN_MAX of others are."""

    async def newest(self, limit: int) -> Sequence[HistoryAsk]:
        """Return up to *limit*, the newest first."""

    async def confirm(self, ask_id: int) -> Mint | None:
        """Let it be read, and return its mint; None if it is not estimated, or no longer."""

    async def cancel(self, ask_id: int, now: UnixMs) -> Mint | None:
        """End it, and return its mint; None if it has ended, or ends already."""


class HistoryQueue(Protocol):
    """Actions of ingest on them.  Raises ServiceUnavailable from every verb."""

    async def first(self, *states: AskState) -> HistoryAsk | None:
        """Return the one in one of *states* that was asked for first, None without any."""

    async def estimated(self, ask_id: int, from_time: UnixS, cost: Cost) -> None:
        """Note what it costs, if it is still asked for."""

    async def began(self, ask_id: int, from_time: UnixS) -> bool:
        """Note that it is read now, since *from_time*; False if it is no longer wanted."""

    async def progress(self, ask_id: int, listed: int, read: int, words: str) -> bool:
        """Note how far it is; False where it is to be cancelled, or has ended."""

    async def end(self, ask_id: int, state: AskState, words: str, now: UnixMs) -> None:
        """End it in *state*, unless it has ended; ENDED_MAX are kept."""
