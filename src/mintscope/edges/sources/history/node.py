"""The JSON-RPC methods that reading a past calls, at a pace that the provider's plan allows."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec
from typing_extensions import override

from mintscope.base.clock import Clock
from mintscope.base.primitives import Signature, Slot, UnixS
from mintscope.base.solana import Endpoint
from mintscope.base.transaction import Transaction, UnreadableTransaction
from mintscope.edges.sources.json_transactions import read_transaction
from mintscope.edges.sources.rpc import Commitment, Rpc, RpcFailure, RpcRefused, T, Unreachable
from mintscope.edges.sources.throttle import Sleep, Trouble
from mintscope.edges.sources.wire import Answer, SlotNumber

LINES_MAX: Final = 1_000  # of getSignaturesForAddress
FILTER_TRANSACTION_NOT_FOUND: Final = -32020

Allow = Callable[[], Awaitable[None]]


class UnknownSignature(RpcFailure):
    """The node does not know the transaction at which a list was to begin."""


class LineWire(msgspec.Struct, frozen=True, rename="camel"):
    """A transaction in the list of an address."""

    signature: Annotated[Signature, msgspec.Meta(min_length=64, max_length=88)]
    slot: SlotNumber
    err: object = None
    block_time: SlotNumber | None = None


class SignedBlock(msgspec.Struct, frozen=True):
    """getBlock with signatures alone."""

    signatures: list[Signature]


LINES: Final = msgspec.json.Decoder(Answer[list[LineWire]])
# Bytes as they came (Raw) would do, but msgspec knows none that may be null.
TRANSACTION: Final = msgspec.json.Decoder(Answer[dict[str, Any]])
SIGNED: Final = msgspec.json.Decoder(Answer[SignedBlock])


class PastNode(Protocol):
    """A node that has the past; every verb raises RpcFailure without an answer."""

    async def finalized(self) -> Slot:
        """Return the newest slot that cannot die."""

    async def reaches_back_to(self) -> UnixS | None:
        """Return the time of the oldest block that it has, None where it does not know."""

    async def lines(
        self, address: str, *, before: Signature | None, until: Signature | None
    ) -> Sequence[LineWire]:
        """Return up to 1,000 transactions that name *address*, newest first, the failed too.

        Raises UnknownSignature where the node does not know *before* or *until*.
        """

    async def transaction(self, signature: Signature) -> Transaction | UnreadableTransaction | None:
        """Return a transaction that succeeded, None where the node has none."""

    async def positions(self, slot: Slot) -> Mapping[Signature, int]:
        """Return the place of each transaction in its block, none where it has no block."""


class PacedNode(Rpc):
    """Implements PastNode over JSON-RPC; counts what it asks.

    calls       requests so far, each attempt one
    in_flight   how many may be under way at once
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
        """Start at most *calls_per_s* requests a second; *more* is as Rpc takes it.

        allow   awaited before each; what it raises ends the call
        """
        super().__init__(endpoint, clock=clock, **more)
        self.calls = 0
        self.in_flight = endpoint.requests_in_flight
        self._monotonic_s = clock.monotonic_s
        self._allow = allow
        self._pause_s = 1 / calls_per_s
        self._next_s = float("-inf")
        self._rest: Sleep = more.get("sleep", asyncio.sleep)

    async def finalized(self) -> Slot:
        """Return the newest slot that cannot die."""
        return await self.slot(Commitment.FINALIZED)

    async def reaches_back_to(self) -> UnixS | None:
        """Return the time of the oldest block that it has, None where it does not know."""
        return await self.block_time(await self.first_available())

    async def lines(
        self, address: str, *, before: Signature | None, until: Signature | None
    ) -> Sequence[LineWire]:
        """Return up to 1,000 transactions that name *address*, newest first, the failed too.

        Raises UnknownSignature where the node does not know *before* or *until*.
        """
        bounds = {"before": before, "until": until}
        options = {"commitment": Commitment.FINALIZED, "limit": LINES_MAX}
        options |= {name: each for name, each in bounds.items() if each is not None}
        try:
            answer = await self._call("getSignaturesForAddress", [address, options], LINES)
        except Unreachable as failure:
            trouble = failure.__cause__
            if isinstance(trouble, Trouble) and trouble.code == FILTER_TRANSACTION_NOT_FOUND:
                raise UnknownSignature(str(failure)) from failure
            raise
        return _result(answer, "getSignaturesForAddress") or []

    async def transaction(self, signature: Signature) -> Transaction | UnreadableTransaction | None:
        """Return a transaction that succeeded, None where the node has none."""
        while True:
            asked = self._version.newest
            options = {
                "encoding": "json",
                "commitment": Commitment.FINALIZED,
                "maxSupportedTransactionVersion": asked,
            }
            answer = await self._call("getTransaction", [signature, options], TRANSACTION)
            if answer.error is None or not self._version.rise(asked, answer.error.message):
                break
        entry = _result(answer, "getTransaction")
        return None if entry is None else read_transaction(msgspec.json.encode(entry), 0)

    async def positions(self, slot: Slot) -> Mapping[Signature, int]:
        """Return the place of each transaction in its block, none where it has no block."""
        options = {
            "transactionDetails": "signatures",
            "rewards": False,
            "commitment": Commitment.FINALIZED,
            "maxSupportedTransactionVersion": self._version.newest,
        }
        answer = await self._call("getBlock", [slot, options], SIGNED)
        signatures = [] if answer.result is None else answer.result.signatures
        return {signature: place for place, signature in enumerate(signatures)}

    @override
    async def _attempt(self, request: bytes, decoder: msgspec.json.Decoder[Answer[T]]) -> Answer[T]:
        if self._allow is not None:
            await self._allow()
        now_s = self._monotonic_s()
        start_s = max(now_s, self._next_s)
        self._next_s = start_s + self._pause_s
        if start_s > now_s:
            await self._rest(start_s - now_s)
        self.calls += 1
        return await super()._attempt(request, decoder)


def _result(answer: Answer[T], method: str) -> T | None:
    """Return what was answered.  Raises RpcRefused for an error."""
    if answer.error is not None:
        raise RpcRefused(f"{method}: it said {answer.error.message[:200]!r}")
    return answer.result
