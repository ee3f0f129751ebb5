"""The client of a stream: reports built from updates, lost connections, budgets and ends."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import chain
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple
from typing_extensions import override

from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.primitives import UnixMs
from mintscope_client import AsyncClient, Client, CreditBudget, errors
from mintscope_client.calls.conversation import CallSession
from mintscope_client.streams.events import EventReader
from mintscope_client.streams.streaming import LiveCall
from support.scenes.whole_report import whole_report

CREDIT_TOKEN = make_credit_token(bytes(28))
MINT = "So11111111111111111111111111111111111111112"
SNAPSHOT = json.loads(whole_report()) | {"slot": 7}
UPDATE = {
    "token": MINT,
    "slot": 8,
    "price": {"usd": 2.0, "sol": 0.5},
    "indicators": {"m1": {"rsi": 55.5}, "m5": {"macd": None}},
    "dataSpan": {"to": 1_750_000_007},
}


def event(name: str, data: Any, **fields: Any) -> bytes:
    head = "".join(f"{field}: {value}\n" for field, value in fields.items())
    return f"event: {name}\n{head}data: {json.dumps(data)}\n\n".encode()


def minute(credit_count: int = 1, left: int = 9) -> bytes:
    return event("minute", {"credits": credit_count, "creditsRemaining": left})


def end(reason: str, returned: int = 0) -> bytes:
    return event("end", {"reason": reason, "message": "because", "creditsReturned": returned})


def live(budget: CreditBudget | None = None, mints: Sequence[str] = (MINT,)) -> LiveCall:
    return LiveCall(session(budget), mints)


def session(budget: CreditBudget | None = None) -> CallSession:
    return CallSession(
        origin=httpx.URL("https://api.example/"),
        credential=CREDIT_TOKEN,
        budget=budget or CreditBudget(),
        clock=ManualClock(UnixMs(1_750_000_000_000)),
        chance=lambda: 1.0,
    )


def test_an_update_replaces_only_the_fields_that_it_names() -> None:
    call = live()
    call.request()
    first, second = call.feed(
        minute() + event("snapshot", SNAPSHOT, id=70) + event("update", UPDATE, id=71)
    )

    assert (first.slot, second.slot) == (7, 8)
    assert first.credits_left == 9
    assert second.report.price.usd == 2.0
    assert second.report.indicators.m1.rsi == 55.5
    assert second.report.indicators.m5.macd is None
    assert second.report.indicators.m1.ema50 == first.report.indicators.m1.ema50
    assert second.report.data_span.to == 1_750_000_007
    assert second.report.data_span.candle_counts == first.report.data_span.candle_counts
    assert call.request().headers["Last-Event-ID"] == "71"


def test_the_evidence_of_a_price_is_none_if_the_service_does_not_send_it() -> None:
    reported = {
        "usd": 2.0, "sol": 0.5, "pool": "pool", "ageMs": 3_000, "liquidityUsd": 1.5, "pools": 2,
        "confidence": "high", "rejectedShareH1": 0.25,
    }  # fmt: skip
    update = UPDATE | {"price": reported}
    older, newer = live().feed(
        event("snapshot", SNAPSHOT | {"price": UPDATE["price"]}) + event("update", update)
    )
    assert astuple(newer.report.price) == tuple(reported.values())
    assert astuple(older.report.price) == (2.0, 0.5, *[None] * 6)


def test_a_lost_connection_is_reopened_after_waits_that_double() -> None:
    call = live()
    assert "Last-Event-ID" not in call.request().headers
    list(call.feed(minute() + event("snapshot", SNAPSHOT, id=70)))
    call.lose(httpx.ReadError("gone"))

    assert [call.wait_s(), call.wait_s(), call.wait_s()] == [0.5, 1.0, 2.0]
    list(call.feed(event("update", UPDATE, retry=5_000)))
    assert call.wait_s() == 5.0


@pytest.mark.parametrize(
    ("lived_ms", "waits"), [(44_999, [0.5, 1, 2, 4, 8, 8]), (45_000, [0.5] * 6)]
)
def test_the_waits_double_while_each_connection_is_lost_within_45_s_of_its_first_minute(
    lived_ms: int, waits: list[float]
) -> None:
    """Each connection costs a minute, so a connection that is lost at once must not cost more."""
    here = session()
    call = LiveCall(here, [MINT])
    assert isinstance(here.clock, ManualClock)
    found = []
    for _ in waits:
        call.request()
        list(call.feed(minute()))
        here.clock.advance(lived_ms)
        call.lose(httpx.ReadError("gone"))
        found.append(call.wait_s())

    assert found == waits


def test_a_slow_connection_attempt_does_not_shorten_the_waits() -> None:
    here = session()
    call = LiveCall(here, [MINT])
    assert isinstance(here.clock, ManualClock)
    call.request()
    list(call.feed(minute()))
    call.lose(httpx.ReadError("gone"))
    assert call.wait_s() == 0.5
    call.request()
    here.clock.advance(45_000)
    list(call.feed(minute()))
    call.lose(httpx.ReadError("gone"))

    assert call.wait_s() == 1.0


def test_a_connection_that_is_lost_after_a_silence_is_reopened() -> None:
    """The silence is longer than `patience_s`, which counts from the loss of the connection."""
    here = session()
    call = LiveCall(here, [MINT])
    assert isinstance(here.clock, ManualClock)
    call.request()
    list(call.feed(minute()))
    here.clock.advance(45_000)
    call.lose(httpx.ReadTimeout("silence"))

    assert call.wait_s() == 0.5
    here.clock.advance(30_000)
    with pytest.raises(errors.UnreachableError, match="silence"):
        call.wait_s()


def test_a_service_that_does_not_answer_is_given_up_after_the_patience() -> None:
    here = session()
    call = LiveCall(here, [MINT])
    call.request()
    call.lose(httpx.ConnectError("refused"))

    def wait() -> None:
        assert isinstance(here.clock, ManualClock)
        while True:
            here.clock.advance(round(call.wait_s() * 1000))

    with pytest.raises(errors.UnreachableError, match="refused"):
        wait()

    assert here.clock.monotonic_s() <= 30


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("insufficient_credits", errors.NoCreditsError),
        ("key_cap_reached", errors.KeyCapError),
        ("credential_refused", errors.UnknownCredentialError),
        ("not_tracked", errors.NotTrackedError),
        ("insufficient_data", errors.TooLittleDataError),
    ],
)
def test_an_end_with_a_permanent_reason_is_raised(
    reason: str, kind: type[errors.RefusedError]
) -> None:
    budget = CreditBudget(credits_in_all=9)
    call = live(budget)
    call.request()
    with pytest.raises(kind, match="because"):
        list(call.feed(minute() + end(reason, returned=1)))
    call.close()

    assert budget.spent == 0


@pytest.mark.parametrize("reason", ["shutting_down", "too_slow", "stale", "a_newer_reason"])
def test_a_stream_is_reopened_after_an_end_with_a_temporary_reason(reason: str) -> None:
    call = live()
    call.request()
    assert list(call.feed(minute() + end(reason))) == []
    assert call.wait_s() == 0.5


def test_the_error_after_an_end_names_the_reason_of_the_end() -> None:
    here = session()
    call = LiveCall(here, [MINT])
    call.request()
    list(call.feed(minute() + end("shutting_down")))
    call.lose(httpx.ReadError("closed"))
    call.wait_s()
    assert isinstance(here.clock, ManualClock)
    here.clock.advance(30_000)

    with pytest.raises(errors.NotNowError, match="shutting_down"):
        call.wait_s()


def test_a_stream_is_ended_before_a_minute_beyond_the_budget() -> None:
    budget = CreditBudget(credits_in_all=5)
    here = session(budget)
    call = LiveCall(here, [MINT, "another"])
    assert isinstance(here.clock, ManualClock)
    call.request()
    list(call.feed(minute(2)))
    here.clock.advance(60_000)
    list(call.feed(minute(2)))
    here.clock.advance(39_000)
    list(call.feed(b": \n\n"))
    here.clock.advance(1_000)  # LEAVE_AFTER_S since the minute began
    with pytest.raises(errors.OverBudgetError):
        list(call.feed(b": \n\n"))
    call.close()

    assert budget.spent == 4
    with pytest.raises(errors.OverBudgetError):
        LiveCall(here, [MINT, "another"]).request()


@pytest.mark.parametrize(
    ("trouble", "spent"),
    [(httpx.ReadError("gone"), 1), (httpx.ConnectError("refused"), 0), (None, 1)],
)
def test_a_first_minute_that_may_have_been_charged_is_counted(
    trouble: httpx.RequestError | None, spent: int
) -> None:
    """The service takes the credits, and its event `minute` does not arrive."""
    budget = CreditBudget()
    call = live(budget)
    call.request()
    if trouble is not None:
        call.lose(trouble)
    call.close()

    assert budget.spent == spent


@pytest.mark.parametrize(("seconds", "spent"), [(39, 1), (40, 2), (75, 2)])
def test_a_next_minute_that_may_have_been_charged_is_counted(seconds: int, spent: int) -> None:
    budget = CreditBudget()
    here = session(budget)
    call = LiveCall(here, [MINT])
    assert isinstance(here.clock, ManualClock)
    call.request()
    list(call.feed(minute()))
    here.clock.advance(seconds * 1_000)
    call.lose(httpx.ReadTimeout("silence"))
    here.clock.advance(round(call.wait_s() * 1_000) + 60_000)
    call.close()

    assert budget.spent == spent


def test_no_further_minute_is_counted_after_an_end_and_a_refusal() -> None:
    budget = CreditBudget()
    here = session(budget)
    call = LiveCall(here, [MINT])
    assert isinstance(here.clock, ManualClock)
    call.request()
    list(call.feed(minute()))
    here.clock.advance(60_000)
    list(call.feed(end("shutting_down")))
    call.request()
    call.refuse(httpx.Response(503))
    call.close()

    assert budget.spent == 1


@given(st.binary(max_size=200), st.data())
def test_events_are_the_same_if_their_bytes_come_in_two_parts(
    noise: bytes, data: st.DataObject
) -> None:
    text = minute() + b": \r\n\r\n" + noise.replace(b"\n", b"") + b"\n\n" + event("end", 1, id="x")
    cut = data.draw(st.integers(0, len(text)))
    whole, parts = EventReader(), EventReader()

    assert [*whole.feed(text)] == [*parts.feed(text[:cut]), *parts.feed(text[cut:])]
    assert whole.last_id == parts.last_id


def test_an_event_that_never_ends_is_refused() -> None:
    reader, line = EventReader(), b"data: " + b"x" * 1_000 + b"\n"
    with pytest.raises(errors.UnreadableError):
        list(chain.from_iterable(reader.feed(line) for _ in range(1_000)))


def test_a_stream_of_no_mints_is_refused_by_the_service() -> None:
    error = {"code": "VALIDATION_ERROR", "message": "expected mints"}
    line = Line(httpx.Response(400, json={"error": error}))
    client = Client("https://api.example", credential=CREDIT_TOKEN, transport=line)
    with client, pytest.raises(errors.WrongCallError, match="expected mints"):
        next(iter(client.stream([])))


def test_an_update_without_a_snapshot_is_unreadable() -> None:
    call = live()
    call.request()
    with pytest.raises(errors.UnreadableError, match="snapshot"):
        list(call.feed(event("update", UPDATE)))


class Line(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport that answers each request with the next of *streams*, in small chunks."""

    def __init__(self, *streams: bytes | httpx.Response) -> None:
        self.streams = list(streams)
        self.asked: list[httpx.Request] = []

    @override
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        stream = self.streams.pop(0)
        if isinstance(stream, httpx.Response):
            return stream
        headers = {"Content-Type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=Chunks(stream))

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


class Chunks(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, text: bytes) -> None:
        self._text = text

    @override
    def __iter__(self) -> Iterator[bytes]:
        for at in range(0, len(self._text), 100):
            yield self._text[at : at + 100]

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def streams() -> Line:
    empty = {"error": {"code": "INSUFFICIENT_CREDITS", "message": "nothing is left"}}
    return Line(
        minute() + event("snapshot", SNAPSHOT, id=70) + event("update", UPDATE, id=71),
        httpx.Response(402, json=empty),
    )


def test_a_client_reads_until_the_credits_are_spent() -> None:
    line = streams()
    with Client("https://api.example", credential=CREDIT_TOKEN, transport=line) as client:
        reports = client.stream([MINT])
        slots = [next(reports).slot, next(reports).slot]
        with pytest.raises(errors.NoCreditsError):
            next(reports)

    assert slots == [7, 8]
    assert [each.headers.get("Last-Event-ID") for each in line.asked] == [None, "71"]
    assert str(line.asked[0].url) == f"https://api.example/v1/stream?mints={MINT}"
    assert client.budget.spent == 1


async def test_a_client_for_asyncio_reads_until_the_credits_are_spent() -> None:
    line = streams()
    async with AsyncClient(
        "https://api.example", credential=CREDIT_TOKEN, transport=line
    ) as client:
        reports = client.stream([MINT])
        slots = [(await anext(reports)).slot, (await anext(reports)).slot]
        with pytest.raises(errors.NoCreditsError):
            await anext(reports)

    assert slots == [7, 8]
    assert [each.headers.get("Last-Event-ID") for each in line.asked] == [None, "71"]
    assert client.budget.spent == 1
