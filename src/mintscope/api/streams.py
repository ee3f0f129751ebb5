"""Endpoint /v1/stream: admits a stream, sends its events, and takes credits for its minutes.

If the client leaves, a started minute stays paid, unless no event was sent in it.  If the service
ends the stream, it gives the credits of the minute back, unless a report was sent in it; the event
`end` has their number.  If the process dies, another process gives these credits back, unless the
store has recorded that the minute stays paid.
"""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import msgspec

from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import OF_CREDITS, PUBLIC_ROUTE, SPENDERS, Operation
from mintscope.api.events import End, EndReason, EventStream, Streams
from mintscope.api.failures import FOR_CREDITS
from mintscope.api.gate import Caller
from mintscope.api.query import read_query
from mintscope.api.v1 import PRIVATE, V1, each_once, kind_of
from mintscope.api.wire import ReportQuery, Wire
from mintscope.credits.ledger import Debited
from mintscope.kit.errors import BadRequest, DataStale, ErrorCode, InvalidPayment, ServiceError
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import NO_OUTLET, Header, Outlet, PushedResponse
from mintscope.kit.http.server_sent import CONTENT_TYPE, encode_event
from mintscope.kit.primitives import EACH_ONCE, AddressText, Mint, about
from mintscope.market.report import ReportKind
from mintscope.market.updates import ReportSnapshot, ReportUpdate
from mintscope.payments.merchant import Order
from mintscope.payments.protocol.envelope import Resource
from mintscope.solana.blocks import WSOL


class StreamQuery(ReportQuery):
    """Query of GET /v1/stream."""

    mints: Annotated[
        list[AddressText],
        msgspec.Meta(
            min_length=1,
            description="Token mint addresses, separated by commas.",
            examples=[[WSOL]],
            extra_json_schema=EACH_ONCE,
        ),
    ]


class MinuteEvent(Wire):
    """Data of the event `minute`: the credits taken for the new minute, and the credits left."""

    credits: Annotated[int, about("Credits that were taken for this minute.", 1)]
    credits_remaining: Annotated[int, about("Credits left.", 41)]


class StreamEvents(Wire):
    """Server-sent events of a stream: the name of each event, and its data in JSON."""

    minute: Annotated[MinuteEvent, about("A paid minute begins.")]
    snapshot: Annotated[ReportSnapshot, about("A whole report.")]
    update: Annotated[ReportUpdate, about("Changes since.")]
    end: Annotated[End, about("Why the stream ends.")]


Take = Callable[[], Awaitable[Debited]]
GiveBack = Callable[[Debited, int], Awaitable[None]]
NoteSent = Callable[[Debited], None]
REASONS: Final = {
    ErrorCode.INSUFFICIENT_CREDITS: EndReason.INSUFFICIENT_CREDITS,
    ErrorCode.KEY_CAP_REACHED: EndReason.KEY_CAP_REACHED,
    ErrorCode.INVALID_TOKEN: EndReason.CREDENTIAL_REFUSED,
    ErrorCode.INSUFFICIENT_SCOPE: EndReason.CREDENTIAL_REFUSED,
}
# The text of the refusal is not sent: it states that nothing was charged, but earlier minutes were.
MESSAGES: Final = {
    EndReason.INSUFFICIENT_CREDITS: "Too few credits are left for another minute of the stream.",
    EndReason.KEY_CAP_REACHED: (
        "The cap of the API key does not allow another minute of the stream."
    ),
    EndReason.CREDENTIAL_REFUSED: "The credential is not accepted any more.",
    EndReason.UNAVAILABLE: (
        "Another minute of the stream cannot be charged right now: connect again."
    ),
}
RETRY_MS: Final = 2_000  # time until a browser reconnects, unless `end` has another one


class PaidMinutes:
    """Takes the credits for each minute of a stream; *debited* is the debit of the first minute.

    take        takes the credits of a minute; raises ServiceError if it cannot take them
    give_back   gives credits back, each at most once
    note_sent   records that a minute stays paid, even if this process dies
    """

    def __init__(
        self, debited: Debited, take: Take, give_back: GiveBack, note_sent: NoteSent
    ) -> None:
        self._take = take
        self._give_back = give_back
        self._note_sent = note_sent
        self._paid: Debited | None = debited  # the debit of the current minute
        self._owed: Debited | None = None
        self._is_noted = False  # whether the store knows that the current minute stays paid
        self._retry_ms: int | None = RETRY_MS  # sent with the first event only

    def begin(self, stream: EventStream) -> None:
        """Start a paid period of *stream*, and send the event `minute` with the credits taken."""
        assert self._paid is not None
        stream.begin_period()  # writes nothing, so `minute` precedes the first report
        minute = MinuteEvent(
            credits=self._paid.debit.credit_count, credits_remaining=self._paid.balance
        )
        retry_ms = self._retry_ms
        self._retry_ms = None
        stream.say(encode_event(b"minute", msgspec.json.encode(minute), retry_ms=retry_ms))

    async def renew(self, stream: EventStream) -> None:
        """Pay for the next minute of *stream*; end *stream* if that fails."""
        if stream.is_gone():  # `settle` gives back the credits owed
            return
        self.note_reported()  # a minute without reports is over, and stays paid
        # If the stream ends during the debit, `returned_count` must not give back the old minute.
        self._paid = None
        try:
            paid = await self._take()
        except ServiceError as failure:
            reason = REASONS.get(failure.code, EndReason.UNAVAILABLE)
            stream.close(reason, MESSAGES[reason])
            return
        if stream.is_gone():
            self._owed = paid
            return
        self._paid = paid
        self._is_noted = False
        self.begin(stream)

    def note_reported(self) -> None:
        """Record, once, that the current minute stays paid, for example after its first report."""
        if self._paid is not None and not self._is_noted:
            self._is_noted = True
            self._note_sent(self._paid)

    def returned_count(self, stream: EventStream) -> int:
        """Return the credits of the current minute if no report was sent in it, else 0.

        These credits are then owed: `settle` gives them back.
        """
        paid = self._paid
        if paid is None or stream.has_reported:
            return 0
        self._paid = None
        self._owed = paid
        return paid.debit.credit_count

    async def settle(self, stream: EventStream) -> None:
        """After *stream* has ended, give back the credits that are owed, if any.

        They are owed for a minute in which nothing was sent, for a minute without a report if the
        service has ended the stream, and if they were taken after the client had left.  If no
        credits are owed, record that the minute stays paid.
        """
        owed = self._owed
        if owed is None and self._paid is not None and not stream.has_written:
            owed = self._paid
        if owed is None:
            self.note_reported()  # the client has left, and the minute stays paid
        self._paid = self._owed = None
        if owed is not None:
            await self._give_back(owed, owed.debit.credit_count)


PATH: Final = "/v1/stream"
ORDER: Final = Order(Resource(PATH), price=lambda _: 0, is_for_credits=True)
LAST_EVENT_ID: Final = b"last-event-id"
HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", CONTENT_TYPE),
    PRIVATE,
    (b"x-accel-buffering", b"no"),  # a buffering proxy would delay events
)


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """Sells streams at one credit for each mint and minute; *v1* identifies and charges callers."""

    streams: Streams
    v1: V1

    @Operation(
        "GET",
        PATH,
        StreamEvents,
        unit="for each token and started minute",
        refusals=(
            *OF_CREDITS,
            ErrorCode.TOKEN_NOT_FOUND,
            ErrorCode.INSUFFICIENT_DATA,
            ErrorCode.DATA_STALE,
            *PUBLIC_ROUTE,
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
        advance, given back if nothing could be sent; the stream ends if no credits are left. Send
        Last-Event-ID to resume after a break. Paid with credits alone. By WebSocket at the same
        address: each event is a JSON message; a first message {"type": "auth", "token": ...,
        "mints": [...]} can replace headers.
        """
        caller = await self.v1.gate.admit(request)
        asked = read_query(request, StreamQuery)
        since = _since(request)
        mints = self._mints(asked)
        kind = kind_of(asked)
        if request.has_payment():
            raise InvalidPayment(FOR_CREDITS)
        if caller.bearer is None:
            await self._take(request, caller, len(mints))  # raises the refusal
        payer = self.v1.gate.payer(caller)
        # The credits are taken last, so that no refusal has to give them back.
        with ExitStack() as room:
            room.enter_context(self.streams.room_for(payer.account))
            await self.v1.resource_server.expect_minute(request, caller, ORDER, len(mints))
            await self.streams.broadcast.prepare(mints, since, kind)
            self._expect_fresh()
            request.expect_client()
            debited = await self._take(request, caller, len(mints))
            request.response_headers.append((b"x-credits-remaining", b"%d" % debited.balance))
            take = partial(self._take_again, request, caller, len(mints))
            server = self.v1.resource_server
            minutes = PaidMinutes(debited, take, server.give_back, server.note_sent)
            # The stream takes over its place: it counts until the stream ends, not this handler.
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
        """Send changed reports of *mints* to *outlet*; at the end, settle the last paid minute."""
        stream = EventStream(
            outlet,
            mints,
            kind=kind,
            on_behind=self.streams.note_behind,
            on_reported=minutes.note_reported,
            returned_count=minutes.returned_count,
        )
        with room:
            try:
                if outlet is not NO_OUTLET:  # else nothing is sent, and the minute is given back
                    minutes.begin(stream)
                    await self.streams.serve(stream, renew=partial(minutes.renew, stream))
            finally:
                await minutes.settle(stream)

    async def _take(self, request: Request, caller: Caller, credit_count: int) -> Debited:
        return await self.v1.resource_server.prepay(request, caller, ORDER, credit_count)

    async def _take_again(self, request: Request, caller: Caller, credit_count: int) -> Debited:
        """Take the credits for another minute of a stream; first look up the credential again."""
        again = await self.v1.gate.look_again(request, caller)
        return await self._take(request, again, credit_count)

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
                f"The newest data is older than {stale_after_s:g} s, and is not sold."
                " Nothing was charged."
            )


def _since(request: Request) -> int | None:
    """Return the log position in Last-Event-ID, after which the stream resumes; None without one.

    A position of another log is harmless: the client then gets snapshots.
    """
    text = request.value(LAST_EVENT_ID)
    # `isdigit` is also true for signs such as a superscript 2, which `int` cannot read.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None  # noqa: PLR2004 - fits 64 bits
