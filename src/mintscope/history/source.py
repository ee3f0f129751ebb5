"""Reads past transactions and blocks from a node, for backfills and gaps.

Only final transactions are listed.  Each page of a list and each batch of transactions is stored as
soon as it is read, so that a backfill resumes where it was interrupted.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

from mintscope.dex.outcome import Swap
from mintscope.history import backfill
from mintscope.history.jobs_store import SqlHistory
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.market.quotes import oriented
from mintscope.solana import rpc
from mintscope.solana.blocks import Block, Endpoint, Gap, SourceError
from mintscope.solana.node import Node
from mintscope.solana.transaction import Transaction, UnreadableTransaction
from mintscope.solana.wire import Answer, Header, read_transaction

LINES_MAX: Final = 1_000  # the highest limit that getSignaturesForAddress accepts
FILTER_TRANSACTION_NOT_FOUND: Final = -32020

Allow = Callable[[], Awaitable[None]]


class UnknownSignature(rpc.RpcFailure):
    """The node does not know the transaction at which a list of transactions starts or ends."""


class SignedBlock(Header, frozen=True, rename="camel", kw_only=True):
    """A block, requested with only the signatures of its transactions."""

    signatures: list[Signature]


LINES: Final = msgspec.json.Decoder(Answer[list[backfill.Line]])
# Raw bytes would be sufficient, but msgspec has no type for raw bytes or null.
TRANSACTION: Final = msgspec.json.Decoder(Answer[dict[str, Any]])
SIGNED: Final = msgspec.json.Decoder(Answer[SignedBlock])


class PacedNode(rpc.Rpc):
    """Sends requests, at a limited rate, to a JSON-RPC node that has past blocks.

    Every method raises RpcFailure if the node returns no usable answer.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Clock,
        calls_per_s: float,
        allow: Allow | None = None,
        **more: Any,
    ) -> None:
        """Limit requests to *calls_per_s* a second.

        allow   awaited before each request, also a repeated one; its errors end the call
        more    further arguments of `Rpc`
        """
        super().__init__(endpoint, clock=clock, **more)
        self.calls = 0  # number of requests so far, including repeated ones
        self.in_flight = endpoint.requests_in_flight  # maximum number of requests at the same time
        self._monotonic_s = clock.monotonic_s
        self._allow = allow
        self._pause_s = 1 / calls_per_s
        self._next_s = float("-inf")
        self._rest: rpc.Sleep = more.get("sleep", asyncio.sleep)

    async def finalized(self) -> Slot:
        """Return the newest finalized slot."""
        return await self.slot(rpc.Commitment.FINALIZED)

    async def reaches_back_to(self) -> UnixS | None:
        """Return the time of the oldest block that the node has; None if it does not know it."""
        return await self.block_time(await self.first_available())

    async def lines(
        self, address: str, *, before: Signature | None, until: Signature | None
    ) -> Sequence[backfill.Line]:
        """Return up to 1,000 transactions that name *address*, newest first, including failed ones.

        The transactions are older than *before* and newer than *until*; None: there is no such
        bound.  Raises UnknownSignature if the node does not know *before* or *until*.
        """
        bounds = {"before": before, "until": until}
        options = {"commitment": rpc.Commitment.FINALIZED, "limit": LINES_MAX}
        options |= {name: each for name, each in bounds.items() if each is not None}
        try:
            answer = await self._call("getSignaturesForAddress", [address, options], LINES)
        except rpc.Unreachable as failure:
            trouble = failure.__cause__
            if isinstance(trouble, rpc.Trouble) and trouble.code == FILTER_TRANSACTION_NOT_FOUND:
                raise UnknownSignature(str(failure)) from failure
            raise
        return _result(answer, "getSignaturesForAddress") or []

    async def transaction(self, signature: Signature) -> Transaction | UnreadableTransaction | None:
        """Return the transaction *signature*; None if it failed or the node does not have it.

        A transaction that cannot be parsed is returned as UnreadableTransaction.
        """
        while True:
            asked = self.version.newest
            options = {
                "encoding": "json",
                "commitment": rpc.Commitment.FINALIZED,
                "maxSupportedTransactionVersion": asked,
            }
            answer = await self._call("getTransaction", [signature, options], TRANSACTION)
            if answer.error is None or not self.version.rise(asked, answer.error.message):
                break
        entry = _result(answer, "getTransaction")
        return None if entry is None else read_transaction(msgspec.json.encode(entry), 0)

    async def positions(self, slot: Slot) -> Mapping[Signature, int]:
        """Return the index of each transaction in the block at *slot*, by signature.

        The result is empty if the node does not have the block.
        """
        block = await self._get_block(slot, rpc.Commitment.FINALIZED, "signatures", SIGNED)
        if isinstance(block, rpc.Missing):
            return {}
        return {signature: place for place, signature in enumerate(block.signatures)}

    @override
    async def _attempt(
        self, request: bytes, decoder: msgspec.json.Decoder[Answer[rpc.T]]
    ) -> Answer[rpc.T]:
        if self._allow is not None:
            await self._allow()
        now_s = self._monotonic_s()
        start_s = max(now_s, self._next_s)
        # Set before the pause, so that requests at the same time keep the rate, too.
        self._next_s = start_s + self._pause_s
        if start_s > now_s:
            await self._rest(start_s - now_s)
        self.calls += 1
        return await super()._attempt(request, decoder)


def _result(answer: Answer[rpc.T], method: str) -> rpc.T | None:
    if answer.error is not None:
        raise rpc.RpcRefused(f"{method}: it said {answer.error.message[:200]!r}")
    return answer.result


BATCH_MAX: Final = 50  # maximum number of transactions that are stored in one commit

A = TypeVar("A")
B = TypeVar("B")

Decode: TypeAlias = Callable[[Sequence[Transaction | UnreadableTransaction]], Sequence[Swap]]
Progress: TypeAlias = Callable[[str, int], None]  # "listed" or "read", and the number added


@dataclass(eq=False, repr=False)
class HistoryReader:
    """Reads the transactions of a backfill in rounds.

    Each round ends at the slot that was final when the round began.
    """

    node: PacedNode
    store: SqlHistory
    decode: Decode
    _: KW_ONLY
    in_flight: InitVar[int]
    progress: Progress

    def __post_init__(self, in_flight: int) -> None:
        self._in_flight = asyncio.Semaphore(in_flight)
        self._unknown: set[Signature] = set()

    async def round(self, mint: Mint, from_time: UnixS) -> Slot:
        """Read the transactions for *mint* from *from_time* to the last slot of the round.

        Return the last slot of the round.  A transaction is left out if the node does not return it
        in three attempts, or does not return its block if the block is needed for the order.
        Raises RpcFailure, ServiceUnavailable, or an error of `allow` in PacedNode; the next call
        resumes the round.
        """
        reaches, cursors = await self.store.round(mint, await self.node.finalized())
        for cursor in cursors:
            await self._list(mint, cursor, reaches, from_time)
        while unread := await self.store.unread(mint, BATCH_MAX):
            await self._read(mint, unread)
        return reaches

    async def _list(
        self, mint: Mint, cursor: backfill.Cursor, reaches: Slot, from_time: UnixS
    ) -> None:
        before = cursor.before
        top = None
        while True:
            wires = await self._lines(cursor, before)
            # Newer transactions belong to the next round.
            known = [wire for wire in wires if wire.slot <= reaches]
            if top is None and known:
                top = known[0].signature
            # A transaction without a time may be new enough.
            wanted = [w for w in known if w.block_time is None or w.block_time >= from_time]
            page = backfill.ListPage(
                address=cursor.address,
                lines=[wire for wire in wanted if wire.err is None],
                before=wires[-1].signature if wires else None,
                top=top,
                is_last=len(wires) < LINES_MAX or len(wanted) < len(known),
            )
            await self.store.listed(mint, page)
            self.progress("listed", len(page.lines))
            if page.is_last:
                return
            before = page.before

    async def _lines(
        self, cursor: backfill.Cursor, before: Signature | None
    ) -> Sequence[backfill.Line]:
        """Return listed transactions older than *before*.

        If the node does not know *before*, the list begins again with the newest ones: a provider
        may answer from several nodes, and a transaction that is listed twice is stored once.
        Raises UnknownSignature if *before* is unknown a second time, or if the node does not know
        the `until` of *cursor*.
        """
        try:
            return await self.node.lines(cursor.address, before=before, until=cursor.until)
        except UnknownSignature:
            if before is None or before in self._unknown:
                raise
            self._unknown.add(before)
            return await self.node.lines(cursor.address, before=None, until=cursor.until)

    async def _read(self, mint: Mint, unread: Sequence[backfill.UnreadTransaction]) -> None:
        mixed = sorted({one.slot for one in unread if one.is_mixed})
        blocks = await self._all(mixed, self.node.positions)
        places = dict(zip(mixed, blocks, strict=True))
        read = await self._all(unread, lambda one: self._one(mint, one, places.get(one.slot)))
        await self.store.save(mint, read)
        self.progress("read", sum(one.swaps is not None for one in read))

    async def _one(
        self, mint: Mint, one: backfill.UnreadTransaction, places: Mapping[Signature, int] | None
    ) -> backfill.ReadTransaction:
        """Request one transaction from the node, and decode it.

        A transaction that *places* does not have is not requested, because swaps without an order
        cannot be priced.

        places   the index of each transaction of the block; None: the order is known without the
                 block
        """
        position = 0 if places is None else places.get(one.signature)
        found = None if position is None else await self.node.transaction(one.signature)
        swaps = None
        if found is not None:
            swaps = [swap for swap in self.decode([found]) if backfill.concerns(swap, mint)]
        return backfill.ReadTransaction(one.slot, one.signature, position or 0, swaps)

    async def _all(self, items: Sequence[A], ask: Callable[[A], Awaitable[B]]) -> list[B]:
        async def one(item: A) -> B:
            async with self._in_flight:
                return await ask(item)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except BaseExceptionGroup as failures:
            # Callers handle single errors, not groups.
            raise failures.exceptions[0] from None
        return [task.result() for task in tasks]


SAMPLES_MAX: Final = 60  # maximum number of transactions read to find the pools of a mint


async def find_pools(node: PacedNode, decode: Decode, mint: Mint) -> Mapping[str, int]:
    """Return pools of *mint*, each with its number of swaps in a sample of transactions.

    Only pools whose transactions name the mint's address are found.  Raises RpcFailure.
    """
    lines = [line for line in await node.lines(mint, before=None, until=None) if line.err is None]
    found: Counter[str] = Counter()
    for line in lines[:: max(1, math.ceil(len(lines) / SAMPLES_MAX))]:
        transaction = await node.transaction(line.signature)
        for swap in decode([] if transaction is None else [transaction]):
            seen = oriented(swap)
            if seen is not None and seen.base == mint and swap.pool is not None:
                found[swap.pool] += 1
    return found


async def cost_of(
    node: PacedNode, addresses: Mapping[str, backfill.Kind], *, from_time: UnixS, calls_per_s: float
) -> backfill.Cost:
    """Return the approximate cost of reading *addresses* back to *from_time*.

    Each page and each transaction takes one request; requests for blocks are not counted.  The rate
    of transactions on the newest page of an address is assumed for the whole period.  Raises
    RpcFailure.
    """
    transactions = pages = 0
    for address in addresses:
        lines = await node.lines(address, before=None, until=None)
        times = [line.block_time for line in lines if line.block_time is not None]
        count = sum(time >= from_time for time in times)
        if len(lines) == LINES_MAX and count == len(times) and times:
            count = count * (times[0] - from_time) // max(times[0] - times[-1], 1)
        transactions += count
        pages += count // LINES_MAX + 1
    calls = pages + transactions
    return backfill.Cost(transactions, calls, calls / calls_per_s)


SLOTS_MAX: Final = 2_000  # maximum number of slots in a gap; each block takes one request
LATER_SLOTS_MAX: Final = 1_000  # at least one of these slots after the gap must have a block


class NotThere(SourceError):
    """The node does not have a block that is needed to read a gap."""


async def blocks_of(node: Node, gap: Gap) -> AsyncIterator[Block]:
    """Yield all blocks of *gap*, newest first.

    Raises NotThere if the node does not have a block, NotMendable if *gap* is too long, or
    RpcFailure if a request fails.
    """
    if gap.last - gap.first >= SLOTS_MAX:
        raise backfill.NotMendable(f"expected at most {SLOTS_MAX} slots to look through")
    parent = await _parent_of_the_next(node, gap.last)
    # Each block names the one before it, so none is left out.
    while parent >= gap.first:
        block = await node.block(parent, rpc.Commitment.FINALIZED)
        if isinstance(block, rpc.Missing):
            raise NotThere(f"the node has no block at slot {parent}, which the next one names")
        yield block
        parent = block.parent_slot


async def _parent_of_the_next(node: Node, slot: Slot) -> Slot:
    later = await node.blocks(
        first=Slot(slot + 1), last=Slot(slot + LATER_SLOTS_MAX), commitment=rpc.Commitment.FINALIZED
    )
    header = await node.header(later[0], rpc.Commitment.FINALIZED) if later else None
    if header is None or isinstance(header, rpc.Missing):
        raise NotThere(f"the node has no final block after slot {slot}")
    return header.parent_slot
