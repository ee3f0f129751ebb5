"""Faults to inject into transactions, calls and streams.

`Knobs` has all faults that are set at a time, so `Knobs()` ends all of them.
"""

from collections import Counter
from typing import Annotated, Final, Literal

import msgspec

from mintscope.kit.time import DAY_MS

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=DAY_MS)]
Times = Annotated[int, msgspec.Meta(ge=1)]
EVERY_METHOD: Final = "*"
SERVER_BUSY: Final = -32005


class Landing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of a transaction between the node and a block.

    late      it lands *ms* later than without the fault
    failed    it lands, but only pays its fee
    never     it is accepted and never lands, however often it is sent
    dropped   this send is lost; sent again, it lands
    vanish    it lands, and disappears *ms* after it was confirmed
    times     how many transactions (of `dropped`: sends) it happens to; None: all
    """

    kind: Literal["late", "failed", "never", "dropped", "vanish"]
    ms: Milliseconds = 0
    times: Times | None = None


class Answering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of the calls of a method.

    http    refused with HTTP *status*
    rpc     refused with JSON-RPC *code* and *message*
    hang    never answered
    lost    executed, but the answer is lost: the connection closes
    times   how many calls it happens to; None: all
    """

    kind: Literal["http", "rpc", "hang", "lost"]
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] = 503
    code: int = SERVER_BUSY
    message: str = "Node is unhealthy"
    times: Times | None = None


StreamFault = Literal[
    "cut",
    "lagged",
    "out_of_range",
    "internal",
    "silent",
    "duplicates",
    "dead",
    "head",
    "banks",
    "both_dead",
    "unnamed",
]


class Streaming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of subscriptions over gRPC.

    cut            the connection ends within a slot
    lagged         the server ends the connection, with the reason that the client is slow
    out_of_range   `from_slot` is refused
    internal       every subscription is refused, as after a restart
    silent         nothing more is sent
    duplicates     the newest blocks are sent again
    dead           a slot is reported as dead before its block is sent
    head           `from_slot` is ignored: the newest block is the first
    banks          a slot has two interleaved banks: the first dies, the second is confirmed
    both_dead      two banks die, of the skipped slot before a block if there is one
    unnamed        every second message of a slot has no bank id
    times          number of times; None: always
    """

    kind: StreamFault
    times: Times | None = None


class Knobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The faults that are currently set.

    calls, latency_ms   by method; "*" is every method without an entry
    blind               methods that do not find any transaction
    confirmed           whether the level `confirmed` is refused, or means `finalized`
    """

    landing: Landing | None = None
    calls: dict[str, Answering] = {}
    latency_ms: dict[str, Milliseconds] = {}
    stream: Streaming | None = None
    blind: list[Literal["getSignatureStatuses", "getTransaction", "getSignaturesForAddress"]] = []
    confirmed: Literal["refused", "finalized"] | None = None


class Faults:
    """The current knobs, and the number of times that each fault was applied."""

    def __init__(self) -> None:
        self.set(Knobs())

    def set(self, knobs: Knobs) -> None:
        """Replace every knob; faults already applied to a transaction remain."""
        self.knobs = knobs
        self._struck: Counter[str] = Counter()

    @property
    def on_wire(self) -> bool:
        """Whether a fault may affect any call."""
        return bool(self.knobs.calls or self.knobs.latency_ms)

    def landing(self) -> Landing | None:
        """Return the fault for the next transaction."""
        landing = self.knobs.landing
        return landing if landing and self._strikes("landing", landing.times) else None

    def answering(self, method: str) -> Answering | None:
        """Return the fault for this call of *method*."""
        row = method if method in self.knobs.calls else EVERY_METHOD
        answering = self.knobs.calls.get(row)
        return answering if answering and self._strikes(f"call {row}", answering.times) else None

    def latency_ms(self, method: str) -> int:
        """Return the delay of an answer to *method*, in milliseconds."""
        rows = self.knobs.latency_ms
        return rows.get(method, rows.get(EVERY_METHOD, 0))

    def is_blind(self, method: str) -> bool:
        """Return whether *method* finds no transaction."""
        return method in self.knobs.blind

    def streaming(self, *kinds: StreamFault) -> StreamFault | None:
        """Return the current fault of a subscription if it is one of *kinds*, else None."""
        stream = self.knobs.stream
        if stream is None or stream.kind not in kinds or not self._strikes("stream", stream.times):
            return None
        return stream.kind

    def _strikes(self, knob: str, times: int | None) -> bool:
        self._struck[knob] += 1
        return times is None or self._struck[knob] <= times
