"""Holders of mints, requested from a node on demand, within a budget of calls.

A reading takes three calls: the largest accounts, these accounts with the mint, and their owners.
It is used again for FRESH_S.  Once the calls of a UTC day are used up, the last reading is given,
however old: it says when it was made.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable, Undecodable, decode_base64
from mintscope.kit.primitives import Mint, Slot
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
from mintscope.solana.rpc import Rpc, RpcRefused
from mintscope.solana.wire import AccountWire

CALLS: Final = 3
FRESH_S: Final = 300
MINTS_MAX: Final = 1_000  # readings that are kept, about 4 kB each

NOT_NAMED: Final = "The node of this service does not name the largest accounts of a token."

log = structlog.get_logger()


class HolderReader(Protocol):
    """Reads the largest holders of a mint.

    Raises ServiceUnavailable if they cannot be read now, or the node does not name them at all.
    """

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        """Return the largest holders of *mint*, of which *booked* pools are known."""


class NoHolders:
    """Implements HolderReader without a node."""

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:  # noqa: ARG002
        """Refuse."""
        raise ServiceUnavailable(NOT_NAMED)


class NodeHolders:
    """Implements HolderReader over a node; up to MINTS_MAX readings are kept.

    calls_per_day   of a UTC day, in this process; 0: nothing is read
    """

    def __init__(self, rpc: Rpc, clock: Clock, calls_per_day: int) -> None:
        self._rpc = rpc
        self._clock = clock
        self._calls_per_day = calls_per_day
        self._kept: OrderedDict[Mint, Holders] = OrderedDict()
        self._reading = asyncio.Lock()
        self._day = 0
        self._calls = 0

    async def of(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        """Return the largest holders of *mint*, of which *booked* pools are known."""
        async with self._reading:  # later callers use the same reading
            kept = self._kept.get(mint)
            age_ms = None if kept is None else self._clock.now() - kept.read_at_ms
            if kept is not None and age_ms is not None and age_ms < FRESH_S * SECOND_MS:
                return kept
            if not self._may_call():
                if kept is not None:
                    return kept
                raise ServiceUnavailable(
                    "The calls for holders of this day are used up; ask again tomorrow (UTC)."
                )
            try:
                found = await self._read(mint, booked)
            except RpcRefused as cause:
                log.warning("holders_refused", reason=str(cause))
                raise ServiceUnavailable(NOT_NAMED) from cause
            except SourceError as cause:
                if kept is not None:
                    return kept
                raise ServiceUnavailable("The holders cannot be read now; try again.") from cause
            self._kept[mint] = found
            self._kept.move_to_end(mint)
            if len(self._kept) > MINTS_MAX:
                self._kept.popitem(last=False)
            return found

    def _may_call(self) -> bool:
        """Take the calls of a reading; return False if too few are left."""
        day = self._clock.now() // (DAY_S * SECOND_MS)
        if day != self._day:
            self._day = day
            self._calls = 0
        if self._calls + CALLS > self._calls_per_day:
            return False
        self._calls += CALLS
        return True

    async def _read(self, mint: Mint, booked: Sequence[BookedPool]) -> Holders:
        accounts = (await self._rpc.largest_accounts(mint))[:HOLDERS_MAX]
        answer = await self._rpc.accounts([mint, *accounts])
        of_mint, *of_accounts = [_data(wire) for wire in answer.value]
        supply = supply_in(of_mint)
        if supply is None or len(of_accounts) != len(accounts):
            raise ServiceUnavailable("The holders cannot be read now; try again.")
        owned = [
            (account, owner_of(data), amount_of(data))
            for account, data in zip(accounts, of_accounts, strict=True)
            if is_same_mint(data, mint)
        ]
        owners = sorted({owner for _, owner, _ in owned if owner is not None})
        programs: dict[str, str] = {}
        if owners:
            wires = (await self._rpc.accounts(owners)).value
            programs = {
                owner: wire.owner
                for owner, wire in zip(owners, wires, strict=False)
                if wire is not None
            }
        holders = [named(*one, programs, booked) for one in owned]
        holders.sort(key=lambda one: (-one.amount, one.account))
        return Holders(holders, *supply, Slot(answer.context.slot), self._clock.now())


def _data(wire: AccountWire | None) -> bytes:
    if wire is None:
        return b""
    try:
        return decode_base64(wire.data[0])
    except Undecodable as cause:
        raise ServiceUnavailable("The holders cannot be read now; try again.") from cause
