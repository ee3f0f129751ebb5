"""Metrics are served to Prometheus on a separate port, and each log line is a JSON object."""

import json
import socket
import subprocess
import sys

import httpx
import pytest
import structlog

from mintscope.app.running.logging import configure_logging
from mintscope.kit.metrics import CHAIN_SLOT, serve_metrics


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_metrics_are_served_as_prometheus_reads_them(host: str) -> None:
    CHAIN_SLOT.set(123)

    with serve_metrics(host, 0) as port:
        address = f"[{host}]" if ":" in host else host
        answer = httpx.get(f"http://{address}:{port}/metrics", timeout=5)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "mintscope_chain_slot 123.0" in answer.text.splitlines()


@pytest.mark.process
def test_a_gauge_that_another_process_keeps_is_not_shown() -> None:
    code = """
import httpx
from mintscope.kit.metrics import CHAIN_SLOT, VIOLATIONS, serve_metrics
CHAIN_SLOT.set(123)
VIOLATIONS.labels("a").set(0)
with serve_metrics("127.0.0.1", 0) as port:
    print(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text)
"""
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()

    assert "mintscope_chain_slot 123.0" in shown
    assert 'mintscope_violations{invariant="a"} 0.0' in shown
    assert not [line for line in shown if "mintscope_live_mints" in line]


def test_the_port_is_free_again_afterwards() -> None:
    with serve_metrics("127.0.0.1", 0) as port:
        pass

    with serve_metrics("127.0.0.1", port) as again:
        assert again == port


def test_a_port_in_use_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(OSError, match="in use"), serve_metrics("127.0.0.1", port):
            pass


def test_a_silent_client_delays_no_other() -> None:
    with serve_metrics("127.0.0.1", 0) as port, socket.create_connection(("127.0.0.1", port)):
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=5)

    assert answer.status_code == 200


def test_a_log_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    configure_logging("info", json_lines=True)
    try:
        structlog.get_logger().debug("not_shown")
        structlog.get_logger().info("chain_forked", slot=7)
    finally:
        structlog.configure(**before)  # the defaults take a second for each error that is logged

    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line) | {"timestamp": ""} == {
        "event": "chain_forked",
        "slot": 7,
        "level": "info",
        "timestamp": "",
    }
