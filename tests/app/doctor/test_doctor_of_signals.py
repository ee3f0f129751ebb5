"""The doctor checks that alerts fire, and that no stranger can send webhooks to this machine."""

import asyncio
from pathlib import Path

import pytest

from mintscope.alerts.alert import FiringId, SignalId
from mintscope.alerts.queue_store import NewWebhook
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config, SignalsConfig
from mintscope.app.doctor.finding import Finding, Level
from mintscope.app.doctor.machine import check_signals
from mintscope.app.doctor.store import check_webhooks
from mintscope.app.stores.folder import WEBHOOKS_FILE
from mintscope.app.stores.stores import open_money
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import UnixMs

LOOPBACK = SignalsConfig(webhook_loopback=True)
USUAL = SignalsConfig()


@pytest.mark.parametrize(
    ("host", "origin", "signals", "level"),
    [
        ("0.0.0.0", "https://a.example.org", USUAL, Level.OK),
        ("127.0.0.1", None, LOOPBACK, Level.OK),
        ("127.0.0.1", "https://a.example.org", LOOPBACK, Level.WARN),
        ("0.0.0.0", None, LOOPBACK, Level.WARN),
        ("127.0.0.1", None, SignalsConfig(enabled=False), Level.WARN),
    ],
)
def test_disabled_alerts_and_exposed_loopback_webhooks_are_warnings(
    host: str, origin: str | None, signals: SignalsConfig, level: Level
) -> None:
    (finding,) = check_signals(Config(api=ApiConfig(host=host, origin=origin), signals=signals))

    assert finding.level is level


async def test_waiting_webhooks_are_counted_and_an_old_one_is_a_warning(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path)
    assert [each.level for each in await reported(config)] == [Level.OK]
    assert not (tmp_path / WEBHOOKS_FILE).exists(), "looking makes no file"
    now = SystemClock().now()
    old = UnixMs(now - (1 + config.signals.webhook_retry_s) * 1_000)
    async with open_money(config, SystemClock()) as money:
        await money.accounts.read(lambda rows: rows.lease.standing())
        for number, fired_at in ((1, now), (2, old)):
            new = [NewWebhook(FiringId(number), SignalId(1), fired_at)]
            await money.webhooks.transact(
                lambda rows, new=new: rows.take_in(new[0].firing_id, new, now)  # type: ignore[misc]
            )
            (finding,) = await reported(config)
            assert finding.level is (Level.OK if number == 1 else Level.WARN)
            assert f"{number} wait" in finding.what
    (tmp_path / WEBHOOKS_FILE).write_bytes(b"nothing that a database is" * 99)
    assert [each.level for each in await reported(config)] == [Level.FAIL]


async def reported(config: Config) -> list[Finding]:
    return await asyncio.to_thread(lambda: [*check_webhooks(config)])
