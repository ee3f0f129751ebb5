"""Holders of mints, read from a node on demand, within a budget of calls.

To read the holders of a mint takes up to three calls: for the list of the largest accounts, for
these accounts and the mint, and for the owners of the accounts.  The result is used again for
FRESH_S seconds.  Once the calls of a UTC day are used up, the newest result is returned with its
time, however old it is.

Clients are not charged for a failure, so failures must not cause many calls.  After a failure, the
same mint is not read again for FRESH_S seconds, and no mint is read during a pause.  The pause
doubles with each further mint in a row that fails, up to PAUSE_S_MAX seconds.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.market.engine.pool_book import BookedPool
from mintscope.market.mint_accounts import read_accounts
from mintscope.market.mint_facts import permanent_delegate_of
from mintscope.market.series.holders import (
    HOLDERS_MAX,
    Holders,
    amount_of,
    is_same_mint,
    named,
    owner_of,
    supply_in,
    without_safety,
)
from mintscope.solana.blocks import SourceError
from mintscope.solana.rpc import Rpc, RpcRefused, Unreachable

CALLS: Final = 3
FRESH_S: Final = 300
MINTS_MAX: Final = 1_000  # the most stored readings, about 4 kB each
ANSWER_S: Final = 10.0  # the longest wait of a caller for other readings, and again for its own
PAUSE_S_MAX: Final = 64  # the longest pause after failures

NOT_NAMED: Final = "The node of this service does not name the largest accounts of a token."
NOT_NOW: Final = "The holders cannot be read now; try again in a few minutes."
USED_UP: Final = "The calls for holders of this day are used up; try again tomorrow (UTC)."

T = TypeVar("T")

log = structlog.get_logger()


class HolderReader(Protocol):
    """Reads the largest holders of a mint from a node, or returns those that were read before."""

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        """Return the largest holders of *mint*.

        booked   the pools of the mint in the pool book, whose vaults are recognised as pools

        Raises ServiceUnavailable if no holders are stored, and none can be read now, for example
        because the node does not offer the largest accounts.
        """

    def last(self, mint: Mint) -> Holders | None:
        """Return the holders of *mint* as last read and stored; None if none are stored.

        They can be old.  No node is called.
        """


class NoHolders:
    """A `HolderReader` for a service without a node: it reads no holders."""

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:  # noqa: ARG002
        """Raise ServiceUnavailable, because there is no node."""
        raise ServiceUnavailable(NOT_NAMED)

    def last(self, mint: Mint) -> Holders | None:  # noqa: ARG002
        """Return None, because this reader stores no holders."""
        return None


class NodeHolders:
    """Reads the holders of mints from a node and stores those of up to MINTS_MAX mints.

    calls_per_day   the most calls of the node in a UTC day.  When fewer than CALLS of them are
                    left, nothing is read
    answer_s        the most seconds for which a caller waits until reads for other callers end, and
                    again until its own read ends
    """

    def __init__(
        self, rpc: Rpc, clock: Clock, calls_per_day: int, *, answer_s: float = ANSWER_S
    ) -> None:
        self._rpc = rpc
        self._clock = clock
        self._calls_per_day = calls_per_day
        self._answer_s = answer_s
        self._kept: OrderedDict[Mint, Holders] = OrderedDict()
        self._failed: OrderedDict[Mint, _Failed] = OrderedDict()
        self._reading = asyncio.Lock()
        self._day = 0
        self._calls = 0
        self._in_a_row = 0
        self._not_before_ms = 0

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        """Return the largest holders of *mint*.

        booked   the pools of the mint in the pool book, whose vaults are recognised as pools
        """
        found = self._known(mint)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(self._answer_s):
                await self._reading.acquire()
        except TimeoutError as cause:
            return self._kept_or(mint, NOT_NOW, cause)
        try:
            # Another caller may have read this mint while this one waited.
            return self._known(mint) or await self._renewed(mint, booked)
        finally:
            self._reading.release()

    def _known(self, mint: Mint) -> Holders | None:
        """Return stored holders of *mint*; None if the node must be called.

        They are returned if they are fresh, or if the node must not be called now.  If nothing is
        stored then, ServiceUnavailable is raised.
        """
        kept = self._kept.get(mint)
        now_ms = self._clock.now()
        if kept is not None and now_ms - kept.read_at_ms < FRESH_S * SECOND_MS:
            return kept
        failed = self._failed.get(mint)
        if failed is not None and now_ms - failed.at_ms < FRESH_S * SECOND_MS:
            return self._kept_or(mint, failed.words)
        if now_ms < self._not_before_ms:
            return self._kept_or(mint, NOT_NOW)
        return None if self._may_call() else self._kept_or(mint, USED_UP)

    def _kept_or(self, mint: Mint, words: str, cause: Exception | None = None) -> Holders:
        kept = self._kept.get(mint)
        if kept is None:
            raise ServiceUnavailable(words) from cause
        return kept

    async def _renewed(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        """Read the holders of *mint* from the node; if it fails, return those that are stored.

        Raises ServiceUnavailable if the node fails and none are stored.
        """
        try:
            async with asyncio.timeout(self._answer_s):
                found = await self._read(mint, booked)
        except RpcRefused as cause:
            log.warning("holders_refused", reason=str(cause))
            self._note_failure(mint, NOT_NAMED)
            return self._kept_or(mint, NOT_NAMED, cause)
        except (SourceError, TimeoutError) as cause:
            self._note_failure(mint, NOT_NOW)
            return self._kept_or(mint, NOT_NOW, cause)
        self._in_a_row = 0
        self._failed.pop(mint, None)
        _keep(self._kept, mint, found)
        return found

    def _note_failure(self, mint: Mint, words: str) -> None:
        now_ms = self._clock.now()
        was_known = mint in self._failed
        _keep(self._failed, mint, _Failed(now_ms, words))
        if was_known:
            return  # the node keeps failing for this token, but may answer for others
        pause_s = min(2**self._in_a_row, PAUSE_S_MAX)
        # A bound, because 2 ** failures would become a huge number.
        self._in_a_row = min(self._in_a_row + 1, PAUSE_S_MAX)
        self._not_before_ms = now_ms + pause_s * SECOND_MS

    def last(self, mint: Mint) -> Holders | None:
        """Return the holders of *mint* as last read, however old; None if none are stored."""
        return self._kept.get(mint)

    def _may_call(self) -> bool:
        """Return whether enough calls of the node are left today to read the holders of a mint."""
        day = self._clock.now() // (DAY_S * SECOND_MS)
        if day != self._day:
            self._day = day
            self._calls = 0
        return self._calls + CALLS <= self._calls_per_day

    async def _read(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        # Counted before it is made, because a failed call is used up, too.
        self._calls += 1
        accounts = (await self._rpc.largest_accounts(mint))[:HOLDERS_MAX]
        self._calls += 1
        found, slot = await read_accounts(self._rpc, [mint, *accounts])
        of_mint, *of_accounts = [b"" if one is None else one.data for one in found]
        supply = supply_in(of_mint)
        if supply is None:
            raise Unreachable("expected the account of a mint")
        owned = [
            (account, owner_of(data), amount_of(data))
            for account, data in zip(accounts, of_accounts, strict=True)
            if is_same_mint(data, mint)
        ]
        # Some may have been closed since.  If there is none at all, the node lags, and the client
        # would pay for an empty list.
        if not owned and (accounts or supply[0]):
            raise Unreachable("expected the largest token accounts; the node has none")
        owners = sorted({owner for _, owner, _ in owned if owner is not None})
        programs: dict[str, str] = {}
        if owners:
            self._calls += 1
            owning, _ = await read_accounts(self._rpc, owners)
            programs = {
                owner: one.owner
                for owner, one in zip(owners, owning, strict=True)
                if one is not None
            }
        holders = [named(*one, programs, booked) for one in owned]
        if permanent_delegate_of(of_mint) is not None:
            holders = [without_safety(one) for one in holders]
        # The amounts were read after the node had sorted the accounts.
        holders.sort(key=lambda one: (-one.amount, one.account))
        return Holders(holders, *supply, slot, self._clock.now())


class _Failed(NamedTuple):
    """A failed read of the holders of a mint: its time, and the message for clients."""

    at_ms: UnixMs
    words: str


def _keep(kept: OrderedDict[Mint, T], mint: Mint, one: T) -> None:
    """Store *one*, the newest holders or failure of *mint*, in *kept*.

    If *kept* then has more than MINTS_MAX entries, the oldest entry is dropped.
    """
    kept[mint] = one
    kept.move_to_end(mint)
    if len(kept) > MINTS_MAX:
        kept.popitem(last=False)
