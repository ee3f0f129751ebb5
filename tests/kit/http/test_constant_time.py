"""An answer is sent at a time that is chosen before the work begins, however the work ends."""

import secrets
import time

import pytest

from mintscope.kit.credentials import make_application_secret
from mintscope.kit.http import application as even_time
from mintscope.kit.http.application import LEAST_S, evenly
from support.scenes.people.agent import Agent
from support.scenes.service import Service


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waits of answers instead of waiting; return the list of their end times."""
    waited_for: list[float] = []
    monkeypatch.setattr(even_time, "_sleep_until", waited_for.append)
    return waited_for


async def test_the_moment_is_set_before_the_work_begins(
    moments: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(even_time, "SPREAD_US", 1)  # no random part

    async def work() -> float:
        return time.perf_counter()

    before_s = time.perf_counter()
    began_s = await evenly(work())

    (due_s,) = moments
    assert before_s <= due_s - LEAST_S <= began_s


async def test_the_moment_is_drawn_from_a_millisecond(
    moments: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []

    def draw(below: int) -> int:
        drawn.append(below)
        return below - 1

    monkeypatch.setattr(secrets, "randbelow", draw)

    async def work() -> float:
        return time.perf_counter()

    began_s = await evenly(work())

    assert drawn == [1_000]
    assert moments[0] <= began_s + LEAST_S + 0.001


async def test_a_failure_waits_as_well(moments: list[float]) -> None:
    async def work() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await evenly(work())

    assert len(moments) == 1


async def test_every_request_with_a_secret_waits_once(
    service: Service, moments: list[float]
) -> None:
    agent = Agent(service)
    await agent.sign_up()
    wrong = make_application_secret(bytes(28))
    stranger = Agent(service, "no-one@example.org", secret=wrong)

    for ask in (agent.exchange, agent.status, stranger.exchange, stranger.status, agent.confirm):
        moments.clear()
        await ask()
        assert len(moments) == 1
    moments.clear()
    await agent.exchange(wrong)
    assert len(moments) == 1


async def test_no_answer_leaves_before_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(even_time, "LEAST_S", 0.1)

    async def work() -> None:
        pass

    began_s = time.perf_counter()
    await evenly(work())

    assert time.perf_counter() - began_s >= 0.1
