"""Reads the past of a mint into its store: lists first, then each transaction, N in flight.

A listed transaction is final, so none dies.  Each page and each batch is kept as it comes:
cut off anywhere, reading goes on where it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from mintscope.base.primitives import Mint, Signature, Slot, UnixS
from mintscope.base.transaction import Transaction, UnreadableTransaction
from mintscope.core.market.history.past import concerns
from mintscope.core.market.history.store import (
    Cursor,
    HistoryReading,
    Line,
    ListPage,
    ReadTransaction,
    UnreadTransaction,
)
from mintscope.core.market.swap import Swap
from mintscope.edges.sources.history.node import LINES_MAX, LineWire, PastNode, UnknownSignature

BATCH_MAX: Final = 50  # transactions of one commit: what is read twice after a kill

A = TypeVar("A")
B = TypeVar("B")

Decode: TypeAlias = Callable[[Sequence[Transaction | UnreadableTransaction]], Sequence[Swap]]
Progress: TypeAlias = Callable[[str, int], None]  # what, and how many more of it


class HistoryReader:
    """Reads one past in rounds, each up to what is final when it begins."""

    def __init__(
        self,
        node: PastNode,
        store: HistoryReading,
        decode: Decode,
        *,
        in_flight: int,
        progress: Progress,
    ) -> None:
        self._node = node
        self._store = store
        self._decode = decode
        self._in_flight = asyncio.Semaphore(in_flight)
        self._progress = progress
        self._unknown: set[Signature] = set()

    async def round(self, mint: Mint, from_time: UnixS) -> Slot:
        """Read all of *mint* that is final now and not before *from_time*; return how far.

        Raises RpcFailure, ServiceUnavailable; call it again to go on.
        """
        reaches, cursors = await self._store.round(mint, await self._node.finalized())
        for cursor in cursors:
            await self._list(mint, cursor, reaches, from_time)
        while unread := await self._store.unread(mint, BATCH_MAX):
            await self._read(mint, unread)
        return reaches

    async def _list(self, mint: Mint, cursor: Cursor, reaches: Slot, from_time: UnixS) -> None:
        before = cursor.before
        top = None
        while True:
            wires = await self._lines(cursor, before)
            known = [wire for wire in wires if wire.slot <= reaches]
            if top is None and known:
                top = known[0].signature
            wanted = [w for w in known if w.block_time is None or w.block_time >= from_time]
            page = ListPage(
                address=cursor.address,
                lines=[_line(wire) for wire in wanted if wire.err is None],
                before=wires[-1].signature if wires else None,
                top=top,
                is_last=len(wires) < LINES_MAX or len(wanted) < len(known),
            )
            await self._store.listed(mint, page)
            self._progress("listed", len(page.lines))
            if page.is_last:
                return
            before = page.before

    async def _lines(self, cursor: Cursor, before: Signature | None) -> Sequence[LineWire]:
        """Return what is older than *before*, all from the newest on if the node does not know it.

        Another node may answer than the one that named it; what is listed twice changes nothing.
        One that is unknown a second time is a failure.
        """
        try:
            return await self._node.lines(cursor.address, before=before, until=cursor.until)
        except UnknownSignature:
            if before is None or before in self._unknown:
                raise
            self._unknown.add(before)
            return await self._node.lines(cursor.address, before=None, until=cursor.until)

    async def _read(self, mint: Mint, unread: Sequence[UnreadTransaction]) -> None:
        mixed = sorted({one.slot for one in unread if one.is_mixed})
        blocks = await self._all(mixed, self._node.positions)
        places = dict(zip(mixed, blocks, strict=True))
        read = await self._all(unread, lambda one: self._one(mint, one, places.get(one.slot, {})))
        await self._store.save(mint, read)
        self._progress("read", sum(one.swaps is not None for one in read))

    async def _one(
        self, mint: Mint, one: UnreadTransaction, places: Mapping[Signature, int]
    ) -> ReadTransaction:
        found = await self._node.transaction(one.signature)
        swaps = None
        if found is not None:
            swaps = [swap for swap in self._decode([found]) if concerns(swap, mint)]
        return ReadTransaction(one.slot, one.signature, places.get(one.signature, 0), swaps)

    async def _all(self, items: Sequence[A], ask: Callable[[A], Awaitable[B]]) -> list[B]:
        """Return what *ask* gives for each of *items*; raises the first failure."""

        async def one(item: A) -> B:
            async with self._in_flight:
                return await ask(item)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]


def _line(wire: LineWire) -> Line:
    time = None if wire.block_time is None else UnixS(wire.block_time)
    return Line(wire.signature, Slot(wire.slot), time)
