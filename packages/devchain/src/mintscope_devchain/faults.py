"""Faults that the devchain injects into transactions, calls and streams.

`Knobs` has all faults that are set, so setting `Knobs()` ends all faults, except those of
transactions that were sent before.
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

    late      the transaction lands *ms* later than without the fault
    failed    it lands as failed, and only pays its fee
    never     it is accepted and never lands, however often it is sent
    dropped   it is lost when it is sent; it lands if it is sent again without this fault
    vanish    it lands, and disappears *ms* after it was confirmed, unless it is final by then
    times     the number of transactions (for `dropped`: of sends) that have the fault; None: all
    """

    kind: Literal["late", "failed", "never", "dropped", "vanish"]
    ms: Milliseconds = 0
    times: Times | None = None


class Answering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of the JSON-RPC calls of one method.

    http    the call is refused with the HTTP status *status*
    rpc     the call is refused with the JSON-RPC error *code* and *message*
    hang    the call is not answered while the client waits, for up to ten minutes
    lost    the call is executed, but the connection closes without the answer
    times   the number of calls that have the fault; None: all
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
    """Faults of the gRPC subscriptions of a devchain.

    cut            the subscription ends after half of the messages of a slot
    lagged         the server ends the subscription, with the reason that the client is slow
    out_of_range   a subscription with `from_slot` is refused as out of range
    internal       a subscription is refused, as after a restart
    silent         the server sends nothing more on the subscription
    duplicates     the server sends the newest blocks again
    dead           half of the messages of a slot are sent, then the slot is reported as dead, then
                   all of its messages are sent
    head           `from_slot` is ignored: the subscription begins after the newest confirmed block
    banks          the messages of two banks of a slot alternate: the first bank dies, the second is
                   confirmed
    both_dead      two banks of a slot die: of the skipped slot before the block if there is one,
                   otherwise of the slot of the block
    unnamed        every second message of a slot has no bank id
    times          the number of times that the fault occurs; None: always
    """

    kind: StreamFault
    times: Times | None = None


class Knobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The faults that are currently set in a devchain.

    calls, latency_ms   by method, the fault of its calls, and the delay of its answers in
                        milliseconds; the entry "*" is for every method without an entry
    blind               the methods that answer as if they knew no transaction
    confirmed           "refused": calls with the level `confirmed` are refused; "finalized": they
                        are answered as with the level `finalized`
    """

    landing: Landing | None = None
    calls: dict[str, Answering] = {}
    latency_ms: dict[str, Milliseconds] = {}
    stream: Streaming | None = None
    blind: list[Literal["getSignatureStatuses", "getTransaction", "getSignaturesForAddress"]] = []
    confirmed: Literal["refused", "finalized"] | None = None


class Faults:
    """The faults that are currently set, and the number of times that each has occurred."""

    def __init__(self) -> None:
        self.set(Knobs())

    def set(self, knobs: Knobs) -> None:
        """Replace all faults, and restart the counts; a sent transaction keeps its fault."""
        self.knobs = knobs
        self._struck: Counter[str] = Counter()

    @property
    def on_wire(self) -> bool:
        """Whether answers to JSON-RPC calls are to fail or to be delayed."""
        return bool(self.knobs.calls or self.knobs.latency_ms)

    def landing(self) -> Landing | None:
        """Return the fault for the next sent transaction, and count it; None: no fault."""
        landing = self.knobs.landing
        return landing if landing and self._strikes("landing", landing.times) else None

    def answering(self, method: str) -> Answering | None:
        """Return the fault for the next call of *method*, and count it; None: no fault."""
        row = method if method in self.knobs.calls else EVERY_METHOD
        answering = self.knobs.calls.get(row)
        return answering if answering and self._strikes(f"call {row}", answering.times) else None

    def latency_ms(self, method: str) -> int:
        """Return the delay of an answer to *method*, in milliseconds."""
        rows = self.knobs.latency_ms
        return rows.get(method, rows.get(EVERY_METHOD, 0))

    def is_blind(self, method: str) -> bool:
        """Return whether *method* must answer as if it knew no transaction."""
        return method in self.knobs.blind

    def streaming(self, *kinds: StreamFault) -> StreamFault | None:
        """Return the current fault of gRPC streams, and count it, if it is one of *kinds*.

        Otherwise, return None.
        """
        stream = self.knobs.stream
        if stream is None or stream.kind not in kinds or not self._strikes("stream", stream.times):
            return None
        return stream.kind

    def _strikes(self, knob: str, times: int | None) -> bool:
        self._struck[knob] += 1
        return times is None or self._struck[knob] <= times
