"""A SIGHUP applies settings that may change, and logs the names of the others."""

import asyncio
import os
import signal
from typing import Any

import pytest
from structlog.testing import capture_logs

from mintscope.app.config.config import ApiConfig, LogConfig
from mintscope.app.config.groups import Config
from mintscope.app.config.load import ConfigError
from mintscope.app.running.processes import Reloading, reloading
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import Admitted, Denied, Limit, MemoryLimits, of_a_site
from mintscope.kit.primitives import UnixMs

LIMIT = Limit(name="any", count=2, window_s=60)


def config(**parts: Any) -> Config:
    return Config().model_copy(update=parts)


def test_a_reload_applies_some_settings_and_logs_that_others_need_a_restart() -> None:
    now = [config()]
    applied: list[str] = []
    own = Reloading(
        now[0], lambda: now[0], {"log.level": lambda new: applied.append(new.log.level)}
    )
    with capture_logs() as nothing:
        assert own.again() == []
    now[0] = config(log=LogConfig(level="debug"), api=ApiConfig(port=9_000))
    with capture_logs() as lines:
        assert own.again() == ["log.level"]
        assert own.again() == []

    assert applied == ["debug"]
    assert [each["event"] for each in nothing] == ["settings_reloaded"]
    logged = [(each["event"], each.get("settings")) for each in lines]
    assert logged == [
        ("settings_reloaded", None),
        ("restart needed", ["api.port"]),
        ("settings_reloaded", None),
        ("restart needed", ["api.port"]),
    ]


def test_a_reload_ignores_settings_of_other_processes() -> None:
    changed = config(api=ApiConfig(port=9_000), drain_s=5.0)
    own = Reloading(config(), lambda: changed, {}, ours=lambda key: key == "drain_s")
    with capture_logs() as lines:
        own.again()

    assert lines[-1]["settings"] == ["drain_s"]


def test_a_reload_of_an_invalid_configuration_changes_nothing() -> None:
    def broken() -> Config:
        raise ConfigError(["api.port: expected a port"])

    own = Reloading(config(), broken, {"log.level": lambda _: pytest.fail("taken over")})
    with capture_logs() as lines:
        assert own.again() == ()

    assert [each["event"] for each in lines] == ["settings_not_reloaded"]
    assert lines[0]["problems"] == ("api.port: expected a port",)


async def test_a_sighup_reloads_the_settings_in_the_event_loop() -> None:
    was = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard = asyncio.Event()
    changed = config(log=LogConfig(level="debug"))
    try:
        with reloading(config(), lambda: changed, {"log.level": lambda _: heard.set()}):
            os.kill(os.getpid(), signal.SIGHUP)
            async with asyncio.timeout(5):
                await heard.wait()
    finally:
        signal.signal(signal.SIGHUP, was)


def test_a_changed_limit_applies_at_once_and_keeps_its_counts() -> None:
    limits = MemoryLimits(ManualClock(UnixMs(0)))
    client = limits.limiter(LIMIT, window="c")
    wide = limits.limiter(of_a_site(LIMIT), window="s")
    other = limits.limiter(Limit(name="other", count=1, window_s=60))

    async def take() -> Admitted | Denied:
        return await client.take("a")

    assert isinstance(asyncio.run(take()), Admitted)
    limits.change(Limit(name="any", count=1, window_s=60))
    assert isinstance(asyncio.run(take()), Denied)
    limits.change(Limit(name="any", count=3, window_s=60))
    assert asyncio.run(take()) == Admitted(remaining=1, reset_s=60)
    assert (wide.limit.count, other.limit.count) == (12, 1)
