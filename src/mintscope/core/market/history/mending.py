"""Gaps that ingest mends by itself: what is known of each attempt, and when the next one is due.

    open -> due -> mended
                -> attempted in vain, due again later and later -> given up

Each step is one durable statement, so after a kill the next ingest goes on from there.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mintscope.base.primitives import UnixMs
from mintscope.base.solana import Gap, SourceError
from mintscope.base.time import SECOND_MS


class NotMendable(SourceError):
    """A further attempt would end the same way."""


class CallsSpent(SourceError):
    """The requests that a day may take are used up."""


class MendPlan(NamedTuple):
    """How often it is tried.

    after_s         from a gap to the first attempt; doubles with each further one
    attempts_max    in vain, then the gap is given up
    calls_per_day   requests of all attempts in a UTC day; 0: no gap is mended
    """

    after_s: float
    attempts_max: int
    calls_per_day: int

    def pause_ms(self, attempts: int) -> int:
        """Return how long to wait after so many *attempts* in vain, 0 for a gap that is new."""
        return round(self.after_s * SECOND_MS) << attempts


class GapMend(NamedTuple):
    """How far an open gap is.

    attempts      in vain
    next_at       when the next one is due; None: ingest has not seen the gap yet
    given_up_at   None while it is tried
    words         why the last attempt was in vain, or what it waits for; empty: neither
    """

    gap: Gap
    attempts: int
    next_at: UnixMs | None
    given_up_at: UnixMs | None
    words: str


class GapCounts(NamedTuple):
    """How many gaps are open, and how many of them are given up."""

    open: int
    given_up: int


class GapMends(Protocol):
    """Notes of ingest on gaps.  Raises ServiceUnavailable from every verb."""

    async def due(self, now: UnixMs, first_at: UnixMs) -> GapMend | None:
        """Return the oldest open gap that is due, None without any; a new one is at *first_at*."""

    async def put_off(self, gap: Gap, next_at: UnixMs, words: str) -> None:
        """Note that it waits for something; that is no attempt."""

    async def failed(self, gap: Gap, next_at: UnixMs, words: str) -> None:
        """Note an attempt in vain."""

    async def give_up(self, gap: Gap, at: UnixMs, words: str) -> None:
        """Note the last attempt, in vain: there is no other."""

    async def counts(self) -> GapCounts:
        """Return how many gaps are open."""

    async def newest(self, limit: int) -> Sequence[GapMend]:
        """Return up to *limit* open gaps, newest first."""

    async def take_calls(self, day: int, wanted: int, calls_max: int) -> int:
        """Take up to *wanted* of the *calls_max* requests of *day*; return how many were left.

        day   UTC days since 1970-01-01
        """
