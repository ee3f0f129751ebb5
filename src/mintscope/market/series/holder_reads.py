"""Holders of mints, requested from a node on demand, within a budget of calls.

A reading takes three calls: the largest accounts, these accounts with the mint, and their owners.
It is used again for FRESH_S.  Once the calls of a UTC day are used up, the last reading is given,
however old: it says when it was made.

A failure costs nothing, so it must not cost a node many calls: the same mint is not requested again
for FRESH_S, nor any for a time that doubles with each failure in a row.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable, Undecodable, decode_base64
from mintscope.kit.primitives import Mint, Slot, UnixMs
from mintscope.kit.time import DAY_S, SECOND_MS
from mintscope.market.engine.pool_book import BookedPool
from mintscope.market.series.holders import (
    HOLDERS_MAX,
    Holders,
    amount_of,
    is_same_mint,
    named,
    owner_of,
    supply_in,
)
from mintscope.solana.blocks import SourceError
from mintscope.solana.rpc import Rpc, RpcRefused, Unreachable
from mintscope.solana.wire import AccountsWire, AccountWire

CALLS: Final = 3
FRESH_S: Final = 300
MINTS_MAX: Final = 1_000  # readings that are kept, about 4 kB each
ANSWER_S: Final = 10.0  # that a caller waits for other readings, and as long for its own
PAUSE_S_MAX: Final = 64  # after failures in a row

NOT_NAMED: Final = "The node of this service does not name the largest accounts of a token."
NOT_NOW: Final = "The holders cannot be read now; try again in a few minutes."
USED_UP: Final = "The calls for holders of this day are used up; ask again tomorrow (UTC)."

T = TypeVar("T")

log = structlog.get_logger()


class HolderReader(Protocol):
    """Reads the largest holders of a mint.

    Raises ServiceUnavailable if they cannot be read now, or the node does not name them at all.
    """

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        """Return the largest holders of *mint*, of which *booked* pools are known."""

    def last(self, mint: Mint) -> Holders | None:
        """Return the newest reading of *mint*, however old; None if none is kept.

        It asks no node.
        """


class NoHolders:
    """Implements HolderReader without a node."""

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:  # noqa: ARG002
        """Refuse."""
        raise ServiceUnavailable(NOT_NAMED)

    def last(self, mint: Mint) -> Holders | None:  # noqa: ARG002
        """Return None."""
        return None


class NodeHolders:
    """Implements HolderReader over a node; up to MINTS_MAX readings are kept.

    calls_per_day   of a UTC day, in this process; 0: nothing is read
    answer_s        that a caller waits for other readings, and as long for its own
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
        """Return the largest holders of *mint*, of which *booked* pools are known."""
        found = self._known(mint)
        if found is not None:
            return found
        try:
            async with asyncio.timeout(self._answer_s):
                await self._reading.acquire()
        except TimeoutError as cause:
            return self._kept_or(mint, NOT_NOW, cause)
        try:
            return self._known(mint) or await self._renewed(mint, booked)
        finally:
            self._reading.release()

    def _known(self, mint: Mint) -> Holders | None:
        """Return a fresh reading, or the last one if no call may be made now; None: call.

        Raises ServiceUnavailable if no call may be made and there is no reading.
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
        """Return a new reading, or the last one if that fails."""
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
            return  # the node fails for this token: it says nothing of others
        pause_s = min(2**self._in_a_row, PAUSE_S_MAX)
        self._in_a_row = min(self._in_a_row + 1, PAUSE_S_MAX)
        self._not_before_ms = now_ms + pause_s * SECOND_MS

    def last(self, mint: Mint) -> Holders | None:
        """Return the newest reading of *mint*, however old; None if none is kept."""
        return self._kept.get(mint)

    def _may_call(self) -> bool:
        """Return whether the calls of a reading are left."""
        day = self._clock.now() // (DAY_S * SECOND_MS)
        if day != self._day:
            self._day = day
            self._calls = 0
        return self._calls + CALLS <= self._calls_per_day

    async def _read(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        self._calls += 1
        accounts = (await self._rpc.largest_accounts(mint))[:HOLDERS_MAX]
        answer = await self._accounts([mint, *accounts])
        of_mint, *of_accounts = [_data(wire) for wire in answer.value]
        supply = supply_in(of_mint)
        if supply is None:
            raise Unreachable("expected the account of a mint")
        owned = [
            (account, owner_of(data), amount_of(data))
            for account, data in zip(accounts, of_accounts, strict=True)
            if is_same_mint(data, mint)
        ]
        owners = sorted({owner for _, owner, _ in owned if owner is not None})
        programs: dict[str, str] = {}
        if owners:
            wires = (await self._accounts(owners)).value
            programs = {
                owner: wire.owner
                for owner, wire in zip(owners, wires, strict=True)
                if wire is not None
            }
        holders = [named(*one, programs, booked) for one in owned]
        holders.sort(key=lambda one: (-one.amount, one.account))
        return Holders(holders, *supply, Slot(answer.context.slot), self._clock.now())

    async def _accounts(self, addresses: Sequence[str]) -> AccountsWire:
        """Return one answer for each of *addresses*."""
        self._calls += 1
        answer = await self._rpc.accounts(addresses)
        if len(answer.value) != len(addresses):
            raise Unreachable(f"expected {len(addresses)} accounts; were {len(answer.value)}")
        return answer


class _Failed(NamedTuple):
    """When a mint could not be read, and the words of the refusal."""

    at_ms: UnixMs
    words: str


def _keep(kept: OrderedDict[Mint, T], mint: Mint, one: T) -> None:
    """Keep *one* as the newest, of MINTS_MAX at most."""
    kept[mint] = one
    kept.move_to_end(mint)
    if len(kept) > MINTS_MAX:
        kept.popitem(last=False)


def _data(wire: AccountWire | None) -> bytes:
    if wire is None:
        return b""
    try:
        return decode_base64(wire.data[0])
    except Undecodable as cause:
        raise Unreachable("expected an account in base64") from cause
