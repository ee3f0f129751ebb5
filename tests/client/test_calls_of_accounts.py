"""Calls of clients other than reads: keys, watchlists, alerts, sign-up; and retries of calls."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.signups.application import SignupId
from mintscope.kit.audit import COMMAND_LINE
from mintscope.solana.blocks import WSOL
from mintscope_client import AsyncClient, Client, errors
from mintscope_client.calls.frames import to_dataframe
from mintscope_client.endpoints import alerts, lists, reports, series
from mintscope_client.endpoints.alerts import SignalEvent
from support.processes.listening import listening
from support.scenes.people.agent import Agent
from support.scenes.service import Service, running_service

WRITES = (Scope.TRADE_WRITE, Scope.SIGNALS_WRITE, Scope.GROUPS_WRITE, Scope.WALLETS_WRITE)
EMAIL = "agent@example.org"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path) as service:
        yield service


@pytest.fixture
async def url(service: Service) -> AsyncIterator[str]:
    async with listening(service.app) as url:
        yield url


async def test_an_agent_gets_and_uses_a_key_by_the_client_alone(service: Service, url: str) -> None:
    async with AsyncClient(url) as client:
        made = await client.sign_up(EMAIL, "To trade.", scopes=["groups:write", "signals:write"])
        secret = made.application_secret
        await client.confirm_email(EMAIL, secret, service.accounts.code(EMAIL))
        assert (await client.application_status(EMAIL, secret)).state == "awaiting_approval"
        with pytest.raises(errors.CredentialRefusedError, match="NOT_APPROVED"):
            await client.exchange_secret(EMAIL, secret)
        application = await service.accounts.review.application(SignupId(made.signup_id))
        assert application is not None
        scopes = application.form.asked_scopes
        await service.accounts.review.approve(
            application.signup_id, scopes=scopes, note="", actor=COMMAND_LINE
        )
        service.clock.advance(6_000)
        key = (await client.exchange_secret(EMAIL, secret)).api_key
    async with AsyncClient(url, credential=key) as client:
        assert "groups:write" in (await client.me()).scopes
        listed = await client.make_watchlist("Dogs")
        filled = await client.watch(listed.group_id, WSOL)
        assert filled.mints == [WSOL]
        assert [each.name for each in (await client.watchlists()).groups] == ["Dogs"]
        rule = await client.make_signal("high", WSOL, "price.usd", "above", level=200.0)
        assert (await client.change_signal(rule.signal_id, level=3.0)).level == 3.0
        assert [event async for event in client.signal_events(rule.signal_id)] == []
        assert (await client.ask_for_scopes(["trade:write"])).scopes_asked_for == ["trade:write"]
        rotated = await client.rotate_key()
    async with AsyncClient(url, credential=rotated.api_key) as client:
        assert (await client.me()).scopes_asked_for == ["trade:write"]
        await client.revoke_key()
        with pytest.raises(errors.UnknownCredentialError):
            await client.me()


async def test_the_synchronous_client_moves_credits_and_lists_payments(
    service: Service, url: str
) -> None:
    key = await Agent(service).key(*WRITES)
    token = await service.issue(5)

    def work() -> tuple[int, list[Any], int]:
        with Client(url, credential=key) as client:
            moved = client.deposit(token, 3)
            drawn = client.withdraw(1)
            assert drawn.token.startswith("svc_credit_")
            return moved.balance, list(client.payments()), client.account().balance

    assert await asyncio.to_thread(work) == (3, [], 2)


async def test_a_raw_response_has_status_and_headers(service: Service, url: str) -> None:
    token = await service.issue(2)
    async with AsyncClient(url, credential=token) as client:
        answer = await client.with_raw_response.balance()

    assert (answer.status, answer.data.balance) == (200, 2)
    assert answer.headers["x-request-id"] == answer.request_id


@pytest.mark.parametrize(
    "call",
    [
        lambda: reports.token(WSOL, candels="closed"),  # type: ignore[call-arg]
        lambda: reports.batch([WSOL], limit=3),  # type: ignore[call-arg]
        lambda: lists.tokens("x", page=2),  # type: ignore[call-arg]
        lambda: series.candles(WSOL, "m1", since=3),  # type: ignore[call-arg]
        lambda: series.indicators(WSOL, "m1", name="rsi"),  # type: ignore[call-arg]
        lambda: alerts.make_signal("a", WSOL, "price.usd", "above", levle=3),  # type: ignore[call-arg]
        lambda: alerts.make_signal_of("a", WSOL, "rsi_h1 < 30", level=3),  # type: ignore[call-arg]
        lambda: alerts.change_signal(7, active=False),  # type: ignore[call-arg]
        lambda: alerts.change_signal(7, direction="up"),  # type: ignore[call-arg]
        lambda: alerts.change_signal(7, compared_with="price.usd"),  # type: ignore[call-arg]
    ],
)
def test_an_unknown_argument_is_refused_before_anything_is_sent(call: Any) -> None:
    with pytest.raises(TypeError, match=r"expected arguments among .*; was "):
        call()


def test_times_may_be_datetimes_with_a_time_zone() -> None:
    at = datetime(2026, 11, 26, 12, tzinfo=UTC)
    query = dict(
        series.candles(WSOL, "m1", from_=at, to=at.timestamp().__int__()).call_at(None).query
    )

    assert query["from"] == query["to"] == str(int(at.timestamp()))
    with pytest.raises(ValueError, match="with a time zone"):
        series.candles(WSOL, "m1", from_=datetime(2026, 11, 26)).call_at(None)  # noqa: DTZ001


@pytest.mark.parametrize(("retries_max", "sendings"), [(0, 1), (2, 3)])
async def test_a_call_is_retried_at_most_retries_max_times(retries_max: int, sendings: int) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(503, json={"error": {"code": "SERVICE_UNAVAILABLE", "message": "."}})

    async with AsyncClient(
        "http://api.example",
        retries_max=retries_max,
        timeout_s=3.5,
        transport=httpx.MockTransport(answer),
    ) as client:
        with pytest.raises(errors.NotNowError):
            await client.bundles()

    assert len(seen) == sendings
    assert seen[0].extensions["timeout"]["read"] == 3.5


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_has_no_column_without_a_value(library: Any) -> None:
    event = SignalEvent(1, "fired", 1.0, "up", 1.0, 1, 1, 1, None)
    frame = to_dataframe([event, event], library)

    assert "webhook_reason" not in frame.columns
    assert "value" in frame.columns
