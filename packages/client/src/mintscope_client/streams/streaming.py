"""A stream of reports that is opened again after a lost connection, until the caller closes it."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import httpx
import msgspec

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.conversation import NOT_SENT, CallSession
from mintscope_client.calls.pacing import backoff_s
from mintscope_client.calls.reading import refusal
from mintscope_client.decoding import Undecodable, decode_json
from mintscope_client.endpoints.reports import Report, ReportOptions, report_query
from mintscope_client.errors import (
    ClientError,
    NotNowError,
    OverBudgetError,
    RefusedError,
    TooManyRequestsError,
    UnreachableError,
    UnreadableError,
    refusal_kind,
)
from mintscope_client.streams.events import EventReader, ServerEvent
from mintscope_client.streams.live import LiveReport, StartedMinute, StreamEnd
from mintscope_client.transport import ENDLESS

# A connection without data for this time is lost; the service sends a heartbeat every 15 s
SILENCE_S_MAX: Final = 45.0
# After these seconds of the current minute the next one may have been charged; if the budget has no
# room for it, the stream ends at the first `expect_time` after them
LEAVE_AFTER_S: Final = 40.0
# Each connection costs a minute, so the waits double until a connection lasts for this time after
# its first event
STABLE_AFTER_S: Final = 45.0
ENDS: Final = {
    "insufficient_credits": (402, "INSUFFICIENT_CREDITS"),
    "key_cap_reached": (402, "KEY_CAP_REACHED"),
    "credential_refused": (401, "INVALID_TOKEN"),
    "not_tracked": (404, "TOKEN_NOT_FOUND"),
    "insufficient_data": (404, "INSUFFICIENT_DATA"),
}  # status and code by reason; after any other reason, the stream is opened again

Shape = TypeVar("Shape")


class _Problem(msgspec.Struct, frozen=True):
    code: str
    message: str


class _Message(msgspec.Struct, frozen=True, rename="camel"):
    """A message of a WebSocket: an event, or a refusal with the fields of an HTTP refusal."""

    type: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    id: str | None = None
    retry_ms: int | None = None
    status: int = 0
    error: _Problem | None = None
    retry_after_s: float | None = None


_MESSAGE: Final = msgspec.json.Decoder(_Message)


class LiveCall:
    """A stream of the reports of one or several mints, without I/O: the caller does that.

    Send `request` to open a connection, and pass its data to `feed`.  If the connection fails, pass
    the reason to `refuse` or `lose`.  When the connection has ended, wait for `wait_s` seconds, and
    send `request` again.  If the stream must end, one of these methods raises the error.

    The credits of a minute are reserved before the minute begins.  If the budget has no room for
    the next minute, the stream ends up to 20 s before that minute, with OverBudgetError.  If a
    connection is lost when the service may have charged a minute whose event has not arrived, the
    credits of that minute count as spent.
    """

    def __init__(
        self, session: CallSession, mints: Sequence[str], options: ReportOptions | None = None
    ) -> None:
        self._session = session
        self._call = ApiCall(
            name="stream",
            method="GET",
            path="/v1/stream",
            kind=LiveReport,
            query=(("mints", ",".join(mints)), *report_query(options or {})),
            credits_max=len(mints),
        )
        self._reader = EventReader()
        self._known: dict[str, dict[str, Any]] = {}
        self._credits_left: int | None = None
        self._reserved = 0
        self._charged_from_s = 0.0  # the reserved credits may have been spent from this time on
        self._leave_at_s: float | None = None
        self._failures = 0
        self._opened_s: float | None = None  # when the first event of the connection arrived
        # When the patience began: with the call, or with the first loss after an event
        self._since_s: float | None = session.clock.monotonic_s()
        self._failure: ClientError | None = None

    def request(self) -> httpx.Request:
        """Return the request that opens the stream, or opens it again after a lost connection.

        Raises OverBudgetError if the budget cannot pay for the first minute.
        """
        self._release()
        self._reserve()
        self._failure = None
        self._leave_at_s = None
        self._opened_s = None
        self._reader.restart()
        request = self._session.build(self._call, "", "text/event-stream")
        request.headers.pop("Idempotency-Key", None)  # each connection begins a new paid minute
        if self._reader.last_id is not None:
            request.headers["Last-Event-ID"] = self._reader.last_id
        timeout = httpx.Timeout(SILENCE_S_MAX).as_dict()
        request.extensions |= {"timeout": timeout, ENDLESS: True}
        return request

    def opening(self) -> tuple[str, str]:
        """Return the URL and the first message of a WebSocket, to use instead of `request`.

        Raises OverBudgetError if the budget cannot pay for the first minute.
        """
        request = self.request()
        first = {"type": "auth"}
        if self._session.credential is not None:
            first["token"] = self._session.credential
        if self._reader.last_id is not None:
            first["lastEventId"] = self._reader.last_id
        scheme = request.url.scheme.replace("http", "ws")
        address = str(request.url.copy_with(scheme=scheme))
        return address, msgspec.json.encode(first).decode()

    def refuse(self, response: httpx.Response) -> None:
        """Record that the service answered with *response*, already read, instead of a stream.

        Raises RefusedError if a retry cannot help.
        """
        self._release(is_unspent=True)
        self._failure = failure = refusal(response, now_ms=self._session.clock.now())
        if not isinstance(failure, NotNowError | TooManyRequestsError):
            raise failure

    def lose(self, trouble: httpx.RequestError) -> None:
        """Record that the connection is lost, unless the service has named another reason."""
        if isinstance(trouble, NOT_SENT):
            self._release(is_unspent=True)
        if self._failure is None:
            self._failure = UnreachableError(f"{type(trouble).__name__}: {trouble}")

    def feed(self, chunk: bytes) -> Iterator[LiveReport]:
        """Yield the reports in the server-sent events that *chunk* completes.

        Raises OverBudgetError, UnreadableError, or RefusedError if the stream has ended for a
        reason that a retry does not change.
        """
        for event in self._reader.feed(chunk):
            report = self._hear(event)
            if report is not None:
                yield report
        self.expect_time()

    def feed_message(self, message: str | bytes) -> Iterator[LiveReport]:
        """Yield the report in *message*, a message of a WebSocket, if it has one.

        Raises OverBudgetError, UnreadableError, or RefusedError if the stream has ended for a
        reason that a retry does not change.
        """
        try:
            reported = decode_json(
                message.encode() if isinstance(message, str) else message, _MESSAGE
            )
        except Undecodable as cause:
            raise UnreadableError(f"expected a message of a stream; {cause}", status=200) from cause
        if reported.error is not None:
            waits = (
                {}
                if reported.retry_after_s is None
                else {"Retry-After": f"{reported.retry_after_s:g}"}
            )
            problem = {"error": {"code": reported.error.code, "message": reported.error.message}}
            # In the form of a refusal by HTTP, so that `refuse` reads both kinds.
            self.refuse(httpx.Response(reported.status, headers=waits, json=problem))
            return
        self._reader.note(reported.id, reported.retry_ms)
        report = self._hear(ServerEvent(reported.type, bytes(reported.data)))
        if report is not None:
            yield report
        self.expect_time()

    def expect_time(self) -> None:
        """Raise OverBudgetError if the next minute is near, but the budget cannot pay for it."""
        if self._leave_at_s is not None and self._session.clock.monotonic_s() >= self._leave_at_s:
            raise OverBudgetError("expected credits for another minute in the budget; none is left")

    def wait_s(self) -> float:
        """Return the seconds to wait before reopening the stream.

        Raise the last failure if the wait would end more than `patience_s` seconds after the
        connection was lost or, if no event has arrived yet, after the call began.
        """
        self._release()
        now_s = self._session.clock.monotonic_s()
        self._since_s = now_s if self._since_s is None else self._since_s
        failure = self._failure or UnreachableError("the stream ended")
        asked_s = failure.retry_after_s if isinstance(failure, RefusedError) else None
        if self._opened_s is not None and now_s >= self._opened_s + STABLE_AFTER_S:
            self._failures = 0
        own_s = backoff_s(self._failures, self._session.chance())
        self._failures += 1
        wait_s = max(own_s, asked_s or 0.0, self._reader.retry_s or 0.0)
        if now_s + wait_s > self._since_s + self._session.patience_s:
            raise failure
        return wait_s

    def close(self) -> None:
        """Give the reserved credits back to the budget, unless they may have been charged."""
        self._release()

    def _hear(self, event: ServerEvent) -> LiveReport | None:
        if self._opened_s is None:
            self._opened_s = self._session.clock.monotonic_s()
        self._since_s = None
        match event.name:
            case "minute":
                self._begin(_decoded(event, StartedMinute))
            case "snapshot":
                return self._report(_decoded(event, dict[str, Any]), is_whole=True)
            case "update":
                return self._report(_decoded(event, dict[str, Any]), is_whole=False)
            case "end":
                self._end(_decoded(event, StreamEnd))
            case _:
                pass  # an event of a newer service
        return None

    def _begin(self, minute: StartedMinute) -> None:
        """Count the credits that *minute* cost, and reserve those of the next one if possible."""
        self._session.budget.give_back(self._reserved - minute.credits)
        self._reserved = 0
        self._credits_left = minute.credits_remaining
        try:
            self._reserve(after_s=LEAVE_AFTER_S)
        except OverBudgetError:
            self._leave_at_s = self._session.clock.monotonic_s() + LEAVE_AFTER_S

    def _report(self, reported: dict[str, Any], *, is_whole: bool) -> LiveReport:
        token = str(reported.get("token"))
        if not is_whole and token not in self._known:
            raise UnreadableError("expected a snapshot before an update", status=200)
        self._known[token] = whole = reported if is_whole else _merged(self._known[token], reported)
        try:
            report = msgspec.convert(whole, Report)
            slot = msgspec.convert(whole.get("slot"), int)
        except msgspec.ValidationError as cause:
            raise UnreadableError(f"expected a report; {cause}", status=200) from cause
        return LiveReport(slot, report, self._credits_left)

    def _end(self, end: StreamEnd) -> None:
        self._release(is_unspent=True)  # the event of a charged minute comes before the end
        self._session.budget.give_back(end.credits_returned)
        status, code = ENDS.get(end.reason, (503, "SERVICE_UNAVAILABLE"))
        kind = refusal_kind(status, code)
        self._failure = failure = kind(
            f"{end.reason}: {end.message}"[:500], status=status, code=code
        )
        if end.reason in ENDS:
            raise failure

    def _reserve(self, after_s: float = 0.0) -> None:
        """Reserve the credits of the stream's next minute in the budget.

        after_s   the seconds after which the service may charge them
        """
        self._session.budget.reserve(self._call.credits_max)
        self._reserved = self._call.credits_max
        self._charged_from_s = self._session.clock.monotonic_s() + after_s

    def _release(self, *, is_unspent: bool = False) -> None:
        """End the reservation of a minute; give its credits back if they cannot be charged yet.

        is_unspent   whether the credits of the minute were not spent, to give them back in any case
        """
        if is_unspent or self._session.clock.monotonic_s() < self._charged_from_s:
            self._session.budget.give_back(self._reserved)
        self._reserved = 0


def _decoded(event: ServerEvent, kind: type[Shape]) -> Shape:
    try:
        return decode_json(event.data, msgspec.json.Decoder(kind))
    except Undecodable as cause:
        raise UnreadableError(f"expected an event {event.name!r}; {cause}", status=200) from cause


def _merged(before: dict[str, Any], reported: dict[str, Any]) -> dict[str, Any]:
    """Return the report *before* with the changed fields in *reported*, at every depth."""
    whole = dict(before)
    for name, value in reported.items():
        old = whole.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            whole[name] = _merged(old, value)
        else:
            whole[name] = value
    return whole
