"""The route of streams: who may have one, of what, and what it begins with."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from mintscope.base.errors import BadRequest, DataStale, ErrorCode, InvalidPayment
from mintscope.base.primitives import Mint
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.checkout.order import Order
from mintscope.core.credits.debit import Debited
from mintscope.core.market.report import ReportKind
from mintscope.core.market.updates.server_sent import CONTENT_TYPE
from mintscope.core.payments.protocol.requirement import Resource
from mintscope.edges.api.data.batch import each_once
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.description.operation import SPENDERS, Operation
from mintscope.edges.api.gate import Caller
from mintscope.edges.api.refusals import FOR_CREDITS
from mintscope.edges.api.streams.minutes import PaidMinutes
from mintscope.edges.api.streams.wire import StreamEvents, StreamQuery
from mintscope.edges.api.v1 import PRIVATE, V1, kind_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Header, PushedResponse
from mintscope.edges.server.streams.outlet import NO_OUTLET, Outlet
from mintscope.edges.server.streams.stream import EventStream
from mintscope.edges.server.streams.streams import Streams

PATH: Final = "/v1/stream"
ORDER: Final = Order(Resource(PATH), price=lambda _: 0, is_for_credits=True)
LAST_EVENT_ID: Final = b"last-event-id"
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", CONTENT_TYPE),
    PRIVATE,
    (b"x-accel-buffering", b"no"),  # a proxy that keeps events back makes them late
)


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """Sells streams, a credit for each mint and minute, with the parts of *v1*."""

    streams: Streams
    v1: V1

    @Operation(
        "GET",
        PATH,
        StreamEvents,
        unit="for each token and started minute",
        refusals=(
            ErrorCode.INVALID_TOKEN_ADDRESS,
            ErrorCode.INVALID_PAYMENT,
            ErrorCode.MISSING_TOKEN,
            ErrorCode.INVALID_TOKEN,
            ErrorCode.PAYMENT_REQUIRED,
            ErrorCode.INSUFFICIENT_CREDITS,
            ErrorCode.KEY_CAP_REACHED,
            ErrorCode.INSUFFICIENT_SCOPE,
            ErrorCode.TOKEN_NOT_FOUND,
            ErrorCode.INSUFFICIENT_DATA,
            ErrorCode.DATA_STALE,
            ErrorCode.RATE_LIMITED,
            ErrorCode.SERVICE_UNAVAILABLE,
        ),
        proofs=SPENDERS,
        is_charged=True,
        query=StreamQuery,
        media_type=CONTENT_TYPE.decode(),
        takes_websocket=True,
        scope=Scope.TRADE_READ,
    )
    async def open_stream(self, request: Request) -> PushedResponse:
        """Price and indicators as they change: a credit for each token and started minute.

        Sends price and changed indicators of each token as server-sent events: a snapshot, then
        updates, at most four a second. Costs one credit for each token and started minute, taken in
        advance, given back if nothing could be sent; it ends cleanly when the credits do. Send
        Last-Event-ID to go on after a break. Paid with credits alone. By WebSocket at the same
        address: each event is a JSON message; {"type": "auth", "token": ..., "mints": [...]} may be
        the first one instead of headers.
        """
        caller = await self.v1.gate.admit(request)
        asked = read_query(request, StreamQuery)
        since = _since(request)
        mints = self._mints(asked)
        kind = kind_of(asked)
        if request.has_payment():
            raise InvalidPayment(FOR_CREDITS)
        if caller.bearer is None:
            await self._take(request, caller, len(mints))  # which says what to present
        payer = self.v1.gate.payer(caller)
        with ExitStack() as room:
            room.enter_context(self.streams.room_for(payer.account))
            await self.streams.broadcast.prepare(mints, since, kind)
            self._expect_fresh()
            request.expect_client()
            debited = await self._take(request, caller, len(mints))
            request.response_headers.append((b"x-credits-remaining", b"%d" % debited.balance))
            take = partial(self._take_again, request, caller, len(mints))
            server = self.v1.resource_server
            minutes = PaidMinutes(debited, take, server.give_back, server.note_sent)
            push = partial(self._push, room.pop_all(), minutes, mints, kind)
        return PushedResponse(200, push, HEADERS)

    async def _push(
        self,
        room: ExitStack,
        minutes: PaidMinutes,
        mints: list[Mint],
        kind: ReportKind,
        outlet: Outlet,
    ) -> None:
        """Send changes until the stream has ended, and give back what was not delivered."""
        stream = EventStream(
            outlet,
            mints,
            kind=kind,
            on_behind=self.streams.note_behind,
            on_told=minutes.note_told,
            returned_count=minutes.returned_count,
        )
        with room:
            try:
                if outlet is not NO_OUTLET:
                    minutes.begin(stream)
                    await self.streams.serve(stream, renew=partial(minutes.renew, stream))
            finally:
                await minutes.settle(stream)

    async def _take(self, request: Request, caller: Caller, credit_count: int) -> Debited:
        return await self.v1.resource_server.prepay(request, caller, ORDER, credit_count)

    async def _take_again(self, request: Request, caller: Caller, credit_count: int) -> Debited:
        """Take credits of who called, if what was presented then is still good."""
        return await self._take(request, await self.v1.gate.look_again(caller), credit_count)

    def _mints(self, asked: StreamQuery) -> list[Mint]:
        mints = each_once(asked.mints)
        most = self.streams.bounds.mints_max
        if len(mints) > most:
            raise BadRequest(f"mints: expected at most {most}; were {len(mints)}")
        return mints

    def _expect_fresh(self) -> None:
        age_ms = self.streams.broadcast.age_ms()
        stale_after_s = self.streams.bounds.stale_after_s
        if age_ms is None or age_ms > stale_after_s * 1000:
            raise DataStale(
                f"expected data of at most {stale_after_s:g} s; older is not sold."
                " Nothing was charged."
            )


def _since(request: Request) -> int | None:
    """Return the position that a client comes back from; None for a first visit.

    An invalid position, or one of another log, does no harm: the client gets snapshots anyway.
    """
    text = request.value(LAST_EVENT_ID)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None  # noqa: PLR2004 - fits 64 bits
