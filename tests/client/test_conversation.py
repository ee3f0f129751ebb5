"""The requests, waits and spent credits of a client's call, tested without a connection."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintscope.kit.clock import ManualClock
from mintscope.kit.credentials import make_credit_token
from mintscope.kit.primitives import UnixMs
from mintscope_client import errors
from mintscope_client.async_client import drive
from mintscope_client.budget import CreditBudget
from mintscope_client.calls.call import Answered, ApiCall
from mintscope_client.calls.conversation import (
    IDEMPOTENCY_KEY,
    CallSession,
    Reply,
    Send,
    Wait,
    converse,
)
from mintscope_client.endpoints import purchases
from mintscope_client.endpoints.purchases import CreditBalance

NOW = UnixMs(1_750_000_000_000)
CREDIT_TOKEN = make_credit_token(bytes(28))
PAID = ApiCall(name="token", method="GET", path="/v1/token/abc", kind=CreditBalance, credits_max=1)
LOST = httpx.ReadTimeout("no answer")
NOT_SENT = httpx.ConnectError("refused")


def session(**changes: Any) -> CallSession:
    given: dict[str, Any] = {
        "origin": httpx.URL("https://api.example/"),
        "credential": CREDIT_TOKEN,
        "clock": ManualClock(NOW),
        "chance": lambda: 1.0,
    }
    return CallSession(**(given | changes))


def answered(left: int = 7) -> httpx.Response:
    body = {"success": True, "data": {"balance": left}, "meta": {}}
    return httpx.Response(200, json=body, headers={"X-Credits-Remaining": str(left)})


def refused(status: int, code: str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = {"success": False, "error": {"code": code, "message": "because"}}
    return httpx.Response(status, json=body, headers=named)


class Reported:
    """The requests, waits and answer of a conversation; its waits move the clock."""

    def __init__(
        self, session: CallSession, replies: Sequence[Reply], call: ApiCall[Any] = PAID
    ) -> None:
        self.sent: list[httpx.Request] = []
        self.waits: list[float] = []
        self.answer: Answered[Any] | None = None
        left = iter(replies)
        assert isinstance(session.clock, ManualClock)
        conversation = converse(session, call)
        reply: Reply = None
        try:
            while True:
                match conversation.send(reply):
                    case Send(request=request):
                        self.sent.append(request)
                        reply = next(left)
                    case Wait(seconds=seconds):
                        self.waits.append(seconds)
                        session.clock.advance(round(seconds * 1000))
                        reply = None
        except StopIteration as done:
            self.answer = done.value


def test_an_answer_has_its_data_its_headers_and_the_credits_left() -> None:
    reported = Reported(session(), [answered(7)])

    assert reported.answer is not None
    headers = reported.answer.headers
    assert reported.answer == Answered(data=CreditBalance(7), credits_left=7, headers=headers)
    assert headers["x-credits-remaining"] == "7"
    (request,) = reported.sent
    assert str(request.url) == "https://api.example/v1/token/abc"
    assert request.headers["Authorization"] == f"Bearer {CREDIT_TOKEN}"
    assert len(request.headers[IDEMPOTENCY_KEY]) >= 32


@pytest.mark.parametrize(
    ("status", "expected"),
    [("live", (False, False)), ("idle", (False, True)), ("degraded", (True, False))],
)
def test_an_answer_has_flags_for_degraded_data_and_for_an_idle_token(
    status: str, expected: tuple[bool, bool]
) -> None:
    reply = answered()
    reply.headers["X-Data-Status"] = status
    reported = Reported(session(), [reply]).answer

    assert reported is not None
    assert (reported.is_degraded, reported.is_idle) == expected


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"extensions": {"offer-receipt": {"info": {"receipt": {"signature": "a.b.c"}}}}}, "a.b.c"),
        ({"success": True}, None),
        ({"extensions": {"offer-receipt": {"info": {"receipt": {"signature": 7}}}}}, None),
        (["no object"], None),
    ],
)
def test_a_paid_answer_has_its_receipt_if_the_receipt_is_readable(
    response: object, expected: str | None
) -> None:
    reply, other = answered(), answered()
    reply.headers["PAYMENT-RESPONSE"] = b64encode(json.dumps(response).encode()).decode()
    other.headers["PAYMENT-RESPONSE"] = "no base64!"
    reported, nothing = (Reported(session(), [each]).answer for each in (reply, other))

    assert reported is not None
    assert nothing is not None
    assert (reported.receipt, nothing.receipt) == (expected, None)


def test_a_call_is_retried_with_the_same_key_after_the_requested_waits() -> None:
    reported = Reported(
        session(),
        [
            refused(429, "RATE_LIMITED", Retry_After="7"),
            refused(503, "DATA_STALE", Retry_After="5"),
            NOT_SENT,
            answered(),
        ],
    )

    assert reported.waits == [7, 5, 2.0]  # the third is the client's own backoff, doubled twice
    assert len({request.headers[IDEMPOTENCY_KEY] for request in reported.sent}) == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID_TOKEN_ADDRESS", errors.InvalidTokenAddressError),
        (401, "INVALID_TOKEN", errors.UnknownCredentialError),
        (402, "INSUFFICIENT_CREDITS", errors.NoCreditsError),
        (402, "KEY_CAP_REACHED", errors.KeyCapError),
        (402, "A_NEWER_CODE", errors.UnpaidError),
        (403, "INSUFFICIENT_SCOPE", errors.MissingScopeError),
        (404, "TOKEN_NOT_FOUND", errors.NotTrackedError),
        (404, "NOT_FOUND", errors.NothingThereError),
        (409, "PAYMENT_ALREADY_USED", errors.PaymentUsedError),
        (418, "TEAPOT", errors.WrongCallError),
    ],
)
def test_a_refusal_is_raised_by_its_code_and_the_call_is_not_retried(
    status: int, code: str, kind: type[errors.RefusedError]
) -> None:
    here = session(budget=CreditBudget(credits_in_all=1))
    with pytest.raises(errors.RefusedError) as raised:
        Reported(here, [refused(status, code, X_Request_Id="r-1")])

    assert type(raised.value) is kind
    assert (raised.value.status, raised.value.code) == (status, code)
    assert raised.value.request_id == "r-1"
    assert here.budget.spent == 0


def test_a_retry_after_beyond_the_patience_is_raised_with_its_seconds() -> None:
    with pytest.raises(errors.TooManyRequestsError) as raised:
        Reported(session(patience_s=30), [refused(429, "RATE_LIMITED", Retry_After="31")])

    assert raised.value.retry_after_s == 31


def test_a_service_that_does_not_answer_is_given_up_after_the_patience() -> None:
    here = session(patience_s=30)
    with pytest.raises(errors.UnreachableError, match="refused") as raised:
        Reported(here, [NOT_SENT] * 100)

    assert here.clock.monotonic_s() <= 30
    assert not raised.value.may_be_charged


def test_the_wait_between_retries_is_at_most_8_s_even_after_hours() -> None:
    reported = Reported(session(patience_s=86_400), [NOT_SENT] * 1_100 + [answered()])

    assert reported.answer is not None
    assert reported.waits[-1] == 8.0


def test_a_call_waits_before_it_is_sent_if_the_rate_limit_is_used_up() -> None:
    here = session()
    full = answered()
    full.headers["RateLimit"] = '"public";r=0;t=12'
    Reported(here, [full])

    assert Reported(here, [answered()]).waits == [12]
    assert Reported(here, [answered()]).waits == []


@pytest.mark.parametrize("text", ["12", "Sun, 15 Jun 2025 15:06:52 GMT", "soon"])
def test_retry_after_is_seconds_or_a_date(text: str) -> None:
    reported = Reported(
        session(), [refused(503, "SERVICE_UNAVAILABLE", Retry_After=text), answered()]
    )

    assert reported.waits == [{"soon": 0.5}.get(text, 12)]


def test_an_unreadable_success_counts_as_spent_and_is_not_retried() -> None:
    here = session(budget=CreditBudget(credits_in_all=3))
    with pytest.raises(errors.UnreadableError, match="200"):
        Reported(here, [httpx.Response(200, text="<html>welcome to the hotel</html>")])

    assert here.budget.spent == 1


def test_a_call_over_the_budget_is_not_sent() -> None:
    here = session(budget=CreditBudget(credits_per_call=4, credits_in_all=10))
    dear = ApiCall(name="b", method="POST", path="/b", kind=CreditBalance, credits_max=5)
    with pytest.raises(errors.OverBudgetError, match="at most 4"):
        Reported(here, [], dear)
    for _ in range(10):
        Reported(here, [answered()])
    with pytest.raises(errors.OverBudgetError, match="10 are spent"):
        Reported(here, [])


def test_free_calls_need_no_budget_and_carry_no_key() -> None:
    reported = Reported(
        session(budget=CreditBudget(credits_in_all=0)), [answered()], purchases.balance()
    )

    assert IDEMPOTENCY_KEY not in reported.sent[0].headers


def test_a_batch_counts_the_credits_of_the_delivered_reports() -> None:
    batch = ApiCall(
        name="batch",
        method="POST",
        path="/b",
        kind=CreditBalance,
        credits_max=50,
        credits_of=lambda data: data.balance,
    )
    here = session(budget=CreditBudget(credits_in_all=60))
    Reported(here, [answered(3)], batch)

    assert here.budget.spent == 3


OUTCOMES: Mapping[str, tuple[Reply, int]] = {
    "answered": (answered(), 1),
    "lost": (LOST, 1),  # it may have been charged
    "not sent": (NOT_SENT, 0),
    "refused": (refused(404, "TOKEN_NOT_FOUND"), 0),
    "later": (refused(503, "DATA_STALE"), 0),
    "garbled": (httpx.Response(200, text="?"), 1),
}


@given(st.lists(st.sampled_from(sorted(OUTCOMES)), max_size=30), st.integers(0, 8))
def test_the_budget_counts_all_credits_that_may_have_been_charged(
    names: list[str], most: int
) -> None:
    """All requests of a call have one Idempotency-Key, so the service takes credits once."""
    here = session(budget=CreditBudget(credits_in_all=most), patience_s=10)
    waiting = list(names)
    charged = 0

    class Service:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def __iter__(self) -> "Service":
            return self

        def __next__(self) -> Reply:
            if not waiting:
                raise KeyboardInterrupt  # the user ends the program
            self.seen.append(waiting.pop(0))
            return OUTCOMES[self.seen[-1]][0]

    while waiting:
        service = Service()
        try:
            Reported(here, service)  # type: ignore[arg-type]
        except errors.OverBudgetError:
            assert service.seen == []
            break
        except (errors.ClientError, KeyboardInterrupt):
            assert service.seen
        charged += max(OUTCOMES[name][1] for name in service.seen)

    assert charged <= here.budget.spent <= most


def test_retries_of_a_lost_call_need_no_further_credits_of_the_budget() -> None:
    here = session(budget=CreditBudget(credits_in_all=1))
    with pytest.raises(errors.UnreachableError) as raised:
        Reported(here, [LOST, *[NOT_SENT] * 10])

    assert raised.value.may_be_charged
    assert here.budget.spent == 1


async def test_a_call_that_is_interrupted_while_it_waits_frees_its_credits() -> None:
    here = session(budget=CreditBudget(credits_in_all=1))
    busy = httpx.MockTransport(lambda _: refused(503, "DATA_STALE"))

    async def go(_: float) -> None:
        raise KeyboardInterrupt

    async with httpx.AsyncClient(transport=busy) as http:
        with pytest.raises(KeyboardInterrupt) as raised:
            await drive(converse(here, PAID), http, sleep=go)

    assert here.budget.spent == 0, raised


def test_retries_with_one_key_count_once() -> None:
    here = session(budget=CreditBudget(credits_in_all=3))
    reported = Reported(here, [LOST, refused(503, "DATA_STALE"), LOST, answered()])

    assert reported.answer is not None
    assert here.budget.spent == 1


@given(st.binary() | st.text().map(str.encode), st.sampled_from([200, 201, 400, 402, 429, 503]))
def test_a_random_answer_raises_an_error_of_the_client(body: bytes, status: int) -> None:
    with pytest.raises(errors.ClientError):
        Reported(session(patience_s=0), [httpx.Response(status, content=body)])


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Yield all texts in *error* and in its causes, with the headers of their requests."""
    while error is not None:
        yield from (str(error), repr(error), repr(vars(error)))
        for value in vars(error).values():
            if isinstance(value, httpx.Request):
                yield repr(value.headers.raw)
        error = error.__cause__ or error.__context__


async def test_the_error_of_a_lost_call_does_not_contain_the_credit_token() -> None:
    losses: list[httpx.ReadTimeout] = []

    def lose(request: httpx.Request) -> httpx.Response:
        losses.append(httpx.ReadTimeout("no answer", request=request))
        raise losses[-1]

    async with httpx.AsyncClient(transport=httpx.MockTransport(lose)) as http:
        with pytest.raises(errors.UnreachableError) as raised:
            await drive(converse(session(patience_s=0), PAID), http)

    assert [text for text in texts_of(losses[0]) if CREDIT_TOKEN in text]
    assert [text for text in texts_of(raised.value) if CREDIT_TOKEN in text] == []
