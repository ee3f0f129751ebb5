"""A check is logged when it begins to fail and when it passes again; its metric is always set."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from mintscope.kit.checks import START_S, CheckWatch
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs

NOW: Final = UnixMs(1_800_000_000_000)


class Checks:
    """A `CheckWatch` over checks whose results a test sets."""

    def __init__(self) -> None:
        self.said: dict[str, str] = {"node": "ok", "data": "ok"}
        self.clock = ManualClock(NOW)
        self.watch = CheckWatch(self._look, self.clock, vital=["data"])

    async def _look(self) -> Mapping[str, str]:
        return dict(self.said)

    async def after(self, seconds: float, **said: str) -> list[Mapping[str, object]]:
        """Run the checks after *seconds*, with *said* as new results; return the log records."""
        self.clock.advance(int(seconds * 1_000))
        self.said |= said
        with capture_logs() as lines:
            await self.watch.look()
        return list(lines)


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


async def test_a_check_is_logged_when_it_fails_and_when_it_passes() -> None:
    checks = Checks()
    assert await checks.after(0) == []
    assert shown("mintscope_check_ok", check="node") == 1

    (line,) = await checks.after(5, node="slot 7 was named 12 s ago")
    assert line["event"] == "check_fails"
    assert line["check"] == "node"
    assert line["reason"] == "slot 7 was named 12 s ago"
    assert line["runbook"] == "docs/runbook.md#node"
    assert shown("mintscope_check_ok", check="node") == 0
    assert shown("mintscope_ready") == 1

    assert await checks.after(5, node="slot 7 was named 17 s ago") == []
    (line,) = await checks.after(5, node="the key is not accepted")
    assert line["reason"] == "the key is not accepted"

    (line,) = await checks.after(5, node="ok")
    assert (line["event"], line["check"], line["after_s"]) == ("check_passes", "node", 15)
    assert shown("mintscope_check_ok", check="node") == 1
    assert shown("mintscope_checked_at_seconds") == NOW / 1000 + 20


async def test_a_failed_vital_check_ends_readiness() -> None:
    checks = Checks()
    await checks.after(0)
    assert shown("mintscope_ready") == 1
    await checks.after(5, data="no block")
    assert shown("mintscope_ready") == 0
    await checks.after(5, data="ok")
    assert shown("mintscope_ready") == 1


async def test_a_check_that_has_not_passed_yet_is_logged_once_it_lasts() -> None:
    """A process that has just started has no block yet, so this check fails for a while."""
    checks = Checks()
    assert await checks.after(0, data="no block has been applied yet") == []
    assert shown("mintscope_check_ok", check="data") == 0
    assert await checks.after(START_S / 2) == []
    (line,) = await checks.after(START_S / 2)
    assert line["event"] == "check_fails"

    checks = Checks()
    assert await checks.after(0, data="no block has been applied yet") == []
    assert await checks.after(5, data="ok") == []


async def test_forgotten_checks_are_not_shown() -> None:
    checks = Checks()
    await checks.after(0, node="it stands still")
    checks.watch.forget()
    assert shown("mintscope_check_ok", check="node") is None
    assert shown("mintscope_check_ok", check="data") is None


async def test_failing_checks_are_stored_once_until_they_change() -> None:
    checks = Checks()
    kept = list[Mapping[str, str]]()
    is_away = False

    async def keep(failing: Mapping[str, str]) -> None:
        if is_away:
            raise ServiceUnavailable("away")
        kept.append(failing)

    checks.watch = CheckWatch(checks._look, checks.clock, keep=keep)  # noqa: SLF001 - of this file
    await checks.after(0)
    assert kept == [{}]
    await checks.after(5, node="12 s")
    await checks.after(5, node="17 s")
    assert kept == [{}, {"node": "12 s"}]
    is_away = True
    await checks.after(5, node="ok")
    assert len(kept) == 2
    is_away = False
    await checks.after(5)
    assert kept[2:] == [{}]
