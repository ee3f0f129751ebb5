"""The doctor says whether alert rules fire, and whether strangers may send to this machine."""

import pytest

from mintscope.shell.cli.doctor.finding import Level
from mintscope.shell.cli.doctor.site import check_signals
from mintscope.shell.config.config import Config
from mintscope.shell.config.sections import ApiConfig
from mintscope.shell.config.signals import SignalsConfig

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
def test_who_may_send_where(
    host: str, origin: str | None, signals: SignalsConfig, level: Level
) -> None:
    (finding,) = check_signals(Config(api=ApiConfig(host=host, origin=origin), signals=signals))

    assert finding.level is level
