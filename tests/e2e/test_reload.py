"""A SIGHUP to `serve` reaches every process; only new settings of the stream restart ingest."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from support.processes.documented_service import DocumentedService, documented_service

WAIT_S: Final = 30.0
CHANGED: Final = """
[log]
level = "warning"

[api]
other_limit_requests = 601
keep_alive_s = 11
"""

pytestmark = pytest.mark.process


def lines(service: DocumentedService) -> list[dict[str, Any]]:
    text = (service.folder / "serve.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def events(service: DocumentedService, event: str) -> list[dict[str, Any]]:
    return [each for each in lines(service) if each["event"] == event]


def until(come: Callable[[], bool], service: DocumentedService) -> None:
    end_s = time.monotonic() + WAIT_S
    while not come():
        assert time.monotonic() < end_s, lines(service)[-10:]
        time.sleep(0.05)


def test_sighup_reloads_settings_and_restarts_ingest_only_for_its_stream(tmp_path: Path) -> None:
    with documented_service(tmp_path) as service:
        processes = service.commands_of_serve()
        file = tmp_path / "mintscope.toml"
        file.touch(mode=0o600)
        file.write_text(CHANGED)
        service.serve.send_signal(signal.SIGHUP)
        until(lambda: len(events(service, "restart needed")) == 1, service)
        limit = httpx.get(f"{service.url}/robots.txt").headers["x-ratelimit-limit"]
        assert service.commands_of_serve() == processes

        file.write_text(CHANGED + '\n[geyser]\nx_tokens = ["of another provider"]\n')
        service.serve.send_signal(signal.SIGHUP)
        until(lambda: len(events(service, "process ended")) == 1, service)
        until(lambda: len(service.commands_of_serve()) == len(processes), service)
        file.write_text("[log]\nlevel = 3\n")
        service.serve.send_signal(signal.SIGHUP)
        until(lambda: len(events(service, "settings_not_reloaded")) >= 2, service)
        ready = httpx.get(f"{service.url}/healthz")

        (line,) = events(service, "restart needed")[:1]
        assert line["settings"] == ["api.keep_alive_s"]
        assert limit == "601"
        assert events(service, "process ended")[0]["process"] == "ingest"
        assert ready.status_code == 200
