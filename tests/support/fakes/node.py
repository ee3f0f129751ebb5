"""A Solana node with a chain that the test writes, and with faulty answers on request."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from mintscope.kit.clock import ManualClock


@dataclass(frozen=True)
class FakeBlock:
    slot: int
    parent_slot: int
    parent_hash: str
    blockhash: str
    slot_s: float = 1.0

    def answer(self, details: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "blockhash": self.blockhash,
            "previousBlockhash": self.parent_hash,
            "parentSlot": self.parent_slot,
            "blockTime": 1_700_000_000 + int(self.slot * self.slot_s),
            "blockHeight": self.slot,
        }
        return body if details == "none" else {**body, "transactions": [{"of": self.blockhash}]}


class RpcError(Exception):
    def __init__(self, code: int, message: str = "no") -> None:
        super().__init__(message)
        self.code = code


Fault = Callable[["FakeNode", str, list[Any]], httpx.Response | None]


@dataclass
class FakeNode:
    """A Solana node with the chain `blocks`, in ascending order; the first `final_count` are final.

    unlisted      slots that getBlocks omits
    unfetchable   the error codes that getBlock returns for existing blocks, by slot
    ghosts        orphaned blocks that are still returned at `confirmed`
    slot_s        the duration of a slot, as the node reports it
    samples       whether the node supports getRecentPerformanceSamples
    timed         whether blocks have times
    names_head    whether the node supports getLatestBlockhash
    alpenglow     whether its cluster uses Alpenglow; None: the node does not support the method
    levels        the commitments that the node supports
    faults        functions that change answers: the n-th one changes the answer to the n-th
                  request; the answer is correct if the function is None or missing
    on_request    a function that is called before each answer, for example to move the clock
    """

    clock: ManualClock
    blocks: list[FakeBlock] = field(default_factory=list)
    final_count: int = 0
    first_available: int = 0
    faults: list[Fault | None] = field(default_factory=list)
    on_request: Callable[[], None] = lambda: None
    requests: list[tuple[str, list[Any]]] = field(default_factory=list)
    requests_max: int = 20_000
    sleeps: list[float] = field(default_factory=list)
    unlisted: set[int] = field(default_factory=set)
    unfetchable: dict[int, int] = field(default_factory=dict)
    ghosts: dict[int, FakeBlock] = field(default_factory=dict)
    made: int = 0
    slot_s: float = 1.0
    samples: bool = True
    timed: bool = True
    names_head: bool = True
    alpenglow: bool | None = True
    levels: frozenset[str] = frozenset({"confirmed", "finalized"})

    def grow(self, count: int = 1, skip: int = 0) -> None:
        """Add *count* blocks, with *skip* skipped slots before each."""
        for _ in range(count):
            self.made += 1
            if not self.blocks:
                self.blocks.append(FakeBlock(0, 0, "1111", "genesis"))
                continue
            last = self.blocks[-1]
            slot = last.slot + 1 + skip
            self.blocks.append(
                FakeBlock(slot, last.slot, last.blockhash, f"{slot}-{self.made}", self.slot_s)
            )

    def fork(self, depth: int, count: int, skip: int = 0) -> None:
        """Remove the newest *depth* blocks, except final blocks, and add *count* others."""
        keep = max(len(self.blocks) - depth, self.final_count)
        del self.blocks[keep:]
        self.grow(count, skip)

    def finalize(self, lag: int = 0) -> None:
        self.final_count = max(self.final_count, len(self.blocks) - lag)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.clock.advance(max(1, int(seconds * 1000)))

    async def sleep_at_once(self, seconds: float) -> None:
        """Advance the clock to the end of this wait; waits that begin at the same time overlap."""
        self.sleeps.append(seconds)
        end = self.clock.now() + max(1, int(seconds * 1000))
        await asyncio.sleep(0)
        self.clock.advance(max(0, end - self.clock.now()))

    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.handle)

    def handle(self, request: httpx.Request) -> httpx.Response:
        asked = msgspec.json.decode(request.content)
        return self.answer(asked["method"], asked["params"])

    def answer(self, method: str, params: list[Any]) -> httpx.Response:
        """Answer an RPC call; the next of `faults`, if there is one, may replace the answer."""
        number = len(self.requests)
        assert number < self.requests_max, "the poller asks without end"
        self.requests.append((method, params))
        self.on_request()
        fault = self.faults[number] if number < len(self.faults) else None
        spoilt = None if fault is None else fault(self, method, params)
        if spoilt is not None:
            return spoilt
        try:
            result = getattr(self, method)(*params)
        except RpcError as error:
            return reply(error={"code": error.code, "message": str(error)})
        return reply(result=result)

    def getRecentPerformanceSamples(self, limit: int) -> list[dict[str, int]]:  # noqa: N802
        if not self.samples:
            raise RpcError(-32601, "Method not found")
        return [{"numSlots": round(60 / self.slot_s), "samplePeriodSecs": 60}][:limit]

    def _view(self, options: dict[str, Any]) -> list[FakeBlock]:
        final = options["commitment"] == "finalized"
        if options["commitment"] not in self.levels:
            raise RpcError(-32602, f"unknown variant `{options['commitment']}`")
        return self.blocks[: self.final_count] if final else self.blocks

    def getSlot(self, options: dict[str, Any]) -> int:  # noqa: N802 - the method's name
        view = self._view(options)
        return view[-1].slot if view else 0

    def getLatestBlockhash(self, options: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if not self.names_head:
            raise RpcError(-32601, "Method not found")
        view = self._view(options)
        last = view[-1] if view else FakeBlock(0, 0, "1111", "of no block")
        value = {"blockhash": last.blockhash, "lastValidBlockHeight": last.slot + 150}
        return {"context": {"slot": last.slot}, "value": value}

    def getAgGenesisCert(self) -> dict[str, Any] | None:  # noqa: N802
        if self.alpenglow is None:
            raise RpcError(-32601, "Method not found")
        return {"block": {"slot": 1, "blockId": [7] * 32}} if self.alpenglow else None

    def getBlocks(self, first: int, last: int, options: dict[str, Any]) -> list[int]:  # noqa: N802
        assert 0 <= last - first <= 500_000
        return [
            block.slot
            for block in self._view(options)
            if max(first, self.first_available) <= block.slot <= last
            and block.slot not in self.unlisted
        ]

    def getBlock(self, slot: int, options: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if slot < self.first_available:
            raise RpcError(-32001)
        if slot in self.unfetchable:
            raise RpcError(self.unfetchable[slot])
        view = self._view(options)
        at = bisect_left(view, slot, key=lambda block: block.slot)
        if at < len(view) and view[at].slot == slot:
            return view[at].answer(options["transactionDetails"])
        if slot in self.ghosts and options["commitment"] == "confirmed":
            return self.ghosts[slot].answer(options["transactionDetails"])
        raise RpcError(-32007 if view and slot < view[-1].slot else -32004)

    def getFirstAvailableBlock(self) -> int:  # noqa: N802
        return self.first_available

    def getGenesisHash(self) -> str:  # noqa: N802
        return "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"

    def getHealth(self) -> str:  # noqa: N802
        return "ok"

    def getBlockTime(self, slot: int) -> int | None:  # noqa: N802
        return 1_700_000_000 + slot if self.timed else None


def reply(**answer: Any) -> httpx.Response:
    content = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, **answer})
    return httpx.Response(200, headers={"Content-Type": "application/json"}, content=content)


def code(number: int) -> Fault:
    return lambda _node, _method, _params: reply(error={"code": number, "message": "so it is"})


def status(number: int, **headers: str) -> Fault:
    return lambda _node, _method, _params: httpx.Response(number, headers=headers, text="sorry")


def body(text: bytes) -> Fault:
    return lambda _node, _method, _params: httpx.Response(200, content=text)


def failing(error: type[httpx.TransportError]) -> Fault:
    def fail(_node: FakeNode, _method: str, _params: list[Any]) -> httpx.Response:
        raise error("gone")

    return fail


def lie(number: int) -> Fault:
    """Return a fault: getBlock answers with error code *number*; other methods answer correctly."""

    def spoil(_node: FakeNode, method: str, _params: list[Any]) -> httpx.Response | None:
        return reply(error={"code": number, "message": "lie"}) if method == "getBlock" else None

    return spoil


def behind(blocks: int) -> Fault:
    """Return a fault: answer as a node of the same cluster that is *blocks* blocks behind."""

    def spoil(node: FakeNode, method: str, params: list[Any]) -> httpx.Response:
        keep = max(len(node.blocks) - blocks, 1)
        lagging = FakeNode(
            node.clock, node.blocks[:keep], min(node.final_count, keep), node.first_available
        )
        return lagging.answer(method, params)

    return spoil


def forgetful(node: FakeNode, method: str, params: list[Any]) -> httpx.Response | None:
    """A fault for `FakeNode`: omits every second block from getBlocks; None for other methods."""
    if method != "getBlocks":
        return None
    first, last, options = params
    return reply(result=node.getBlocks(first, last, options)[::2])
