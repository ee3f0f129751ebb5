"""Traces of OpenTelemetry are sent, by OTLP, only if a collector is configured."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

import pytest
from pydantic import SecretStr
from typing_extensions import override

from mintscope.app.config.groups import TracingConfig
from mintscope.app.running.tracing import FLUSH_S, tracing
from mintscope.kit.clock import ManualClock
from mintscope.kit.metrics import REQUESTS, SPANS
from mintscope.kit.primitives import UnixMs

NOW: Final = UnixMs(1_800_000_000_000)
protocol = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    reason="did not run: the extra otel is not installed",
)


@contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """Receive OTLP over HTTP; yield the address, and the requests so far."""
    came: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            came.append(protocol.ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def configured(url: str, **more: Any) -> TracingConfig:
    return TracingConfig(otlp_url=SecretStr(url), **more)


def spans(came: list[Any]) -> list[Any]:
    return [
        span
        for request in came
        for of_resource in request.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def test_a_request_and_a_settlement_become_spans_with_their_times() -> None:
    with collector() as (url, came):
        with tracing(configured(f"{url}/"), "api", ManualClock(NOW)):
            REQUESTS.count("/v1/token/{tokenAddress}", 200, 0.25)
            REQUESTS.count("/v1/tokens", 503, 0.5)
            SPANS.ended("settlement", 1.0, {"mintscope.outcome": "Landed"})
        found = {each.name: each for each in spans(came)}
        (resource, *_) = [each.resource for each in came[0].resource_spans]

    assert found.keys() == {"/v1/token/{tokenAddress}", "/v1/tokens", "settlement"}
    report = found["/v1/token/{tokenAddress}"]
    attributes = {each.key: each.value for each in report.attributes}
    assert report.end_time_unix_nano == NOW * 1_000_000
    assert report.end_time_unix_nano - report.start_time_unix_nano == 250_000_000
    assert attributes["http.route"].string_value == "/v1/token/{tokenAddress}"
    assert attributes["http.response.status_code"].int_value == 200
    assert found["/v1/tokens"].status.code == 2  # an error
    names = {each.key: each.value.string_value for each in resource.attributes}
    assert names["service.name"] == "mintscope-api"
    assert SPANS.listener is None


def test_the_configured_share_of_requests_is_traced() -> None:
    with collector() as (url, came):
        with tracing(configured(url, share_max=0.2), "api", ManualClock(NOW)):
            for _ in range(1_000):
                REQUESTS.count("/v1/tokens", 200, 0.001)
        # Six standard deviations around 200: each trace is sampled at random.
        assert 120 < len(spans(came)) < 280


@pytest.mark.process
def test_tracing_without_a_collector_imports_nothing_and_has_no_listener() -> None:
    program = (
        "import sys\n"
        "from mintscope.kit.clock import SystemClock\n"
        "from mintscope.app.config.groups import TracingConfig\n"
        "from mintscope.app.running.tracing import tracing\n"
        "with tracing(TracingConfig(), 'api', SystemClock()):\n"
        "    assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    with tracing(TracingConfig(), "api", ManualClock(NOW)):
        assert SPANS.listener is None
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_unreachable_collector_delays_the_end_by_a_few_seconds_at_most() -> None:
    began_s = time.monotonic()
    with tracing(configured("http://127.0.0.1:1"), "api", ManualClock(NOW)):
        for _ in range(5_000):  # more spans than the queue of the exporter holds
            REQUESTS.count("/v1/tokens", 200, 0.001)
        assert time.monotonic() - began_s < 5
    assert time.monotonic() - began_s < FLUSH_S + 5
