"""Caddy in front of three servers: its choice of a server, its retries, its log."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from proxies import WAIT_S, Proxy, proxied

SECRET = "svc_credit_" + "ab" * 32

pytestmark = pytest.mark.process


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with proxied(tmp_path) as proxy:
        proxy.answers("/here", 200)
        for upstream in proxy.upstreams:
            upstream.requests.clear()
        yield proxy


def asked(proxy: Proxy) -> list[int]:
    """Return the number of requests to each upstream."""
    return [len(upstream.requests) for upstream in proxy.upstreams]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_that_a_process_has_received_is_not_sent_to_another(
    proxy: Proxy, method: str
) -> None:
    """A second process would take a second credit for the same request."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    answer = httpx.request(method, f"{proxy.url}/hangs-up", headers=headers, timeout=WAIT_S)

    assert len([count for count in asked(proxy) if count]) == 1
    assert method == "GET" or sum(asked(proxy)) == 1
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
    assert answer.headers["Retry-After"] == "5"


def test_a_request_that_no_process_has_received_is_sent_to_another(proxy: Proxy) -> None:
    gone = proxy.upstreams[0]
    gone.shutdown()
    gone.server_close()

    statuses = [
        httpx.post(f"{proxy.url}/buy", content=b"x" * 10, timeout=WAIT_S).status_code
        for _ in range(6)
    ]

    assert statuses == [200] * 6
    assert sum(asked(proxy)) == 6


def test_requests_go_only_to_processes_that_are_ready(proxy: Proxy) -> None:
    for upstream in proxy.upstreams[:2]:
        upstream.is_ready = upstream.is_alive = False
    for _ in range(30):  # until the probes of Caddy have seen both
        proxy.answers("/here", 200)
    before = asked(proxy)
    proxy.answers("/here", 200)

    assert asked(proxy)[:2] == before[:2]


def test_requests_go_to_live_processes_if_no_process_is_ready(proxy: Proxy) -> None:
    """A process that is not ready answers in the API's error format, unlike the proxy itself."""
    for upstream in proxy.upstreams:
        upstream.is_ready = False
    for _ in range(30):
        proxy.answers("/here", 200)

    posted = httpx.post(f"{proxy.url}/buy", content=b"x" * 10, timeout=WAIT_S)

    assert (posted.status_code, posted.text) == (200, "10")


def test_the_answer_is_503_if_no_process_is_alive(proxy: Proxy) -> None:
    for upstream in proxy.upstreams:
        upstream.is_ready = upstream.is_alive = False

    proxy.answers("/here", 503)


def test_caddy_replaces_the_forwarded_headers_of_a_client(proxy: Proxy) -> None:
    said = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "gopher"}
    headers = httpx.get(f"{proxy.url}/here", headers=said, timeout=WAIT_S).json()

    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert headers["X-Forwarded-Proto"] == "http"


def test_caddy_passes_each_event_on_when_it_is_sent(proxy: Proxy) -> None:
    with httpx.stream("GET", f"{proxy.url}/events", timeout=WAIT_S) as stream:
        assert "content-encoding" not in stream.headers
        events = stream.iter_lines()

        assert next(events) == "data: one"
        for upstream in proxy.upstreams:
            upstream.second_event.set()
        assert [line for line in events if line] == ["data: two"]


@pytest.mark.parametrize(("path", "encoding"), [("/here", "gzip"), ("/page", None)])
def test_answers_of_the_api_are_compressed_and_pages_are_not(
    proxy: Proxy, path: str, encoding: str | None
) -> None:
    answer = httpx.get(proxy.url + path, headers={"Accept-Encoding": "gzip"}, timeout=WAIT_S)

    assert answer.headers.get("Content-Encoding") == encoding


def test_a_body_that_is_too_large_is_refused_with_413(proxy: Proxy) -> None:
    answer = httpx.post(f"{proxy.url}/buy", content=b"x" * 300_000, timeout=WAIT_S)

    assert answer.status_code == 413
    assert answer.json()["success"] is False


def test_secrets_of_requests_are_not_logged(proxy: Proxy) -> None:
    for upstream in proxy.upstreams:
        upstream.is_ready = upstream.is_alive = False
    proxy.answers("/here", 503)
    headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "key-of-a-payment"}
    httpx.get(f"{proxy.url}/reset/link", headers=headers, timeout=WAIT_S)

    log = proxy.log.read_text()
    assert "http.log.error" in log, "expected it to say that something failed"
    assert [word for word in (SECRET, "key-of-a-payment", "/reset/link") if word in log] == []
