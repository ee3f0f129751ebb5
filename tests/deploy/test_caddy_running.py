"""Caddy before three servers: whom it asks, what it asks twice, what it passes on."""

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
def test_a_request_that_may_have_been_worked_on_goes_to_no_other_process(
    proxy: Proxy, method: str
) -> None:
    """Sent to a second process, it would spend a second credit."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    answer = httpx.request(method, f"{proxy.url}/hangs-up", headers=headers, timeout=WAIT_S)

    assert len([count for count in asked(proxy) if count]) == 1
    assert method == "GET" or sum(asked(proxy)) == 1
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
    assert answer.headers["Retry-After"] == "5"


def test_a_request_that_no_process_has_had_is_sent_to_another(proxy: Proxy) -> None:
    gone = proxy.upstreams[0]
    gone.shutdown()
    gone.server_close()

    statuses = [
        httpx.post(f"{proxy.url}/buy", content=b"x" * 10, timeout=WAIT_S).status_code
        for _ in range(6)
    ]

    assert statuses == [200] * 6
    assert sum(asked(proxy)) == 6


def test_only_who_is_ready_is_asked(proxy: Proxy) -> None:
    for upstream in proxy.upstreams[:2]:
        upstream.is_ready = upstream.is_alive = False
    for _ in range(30):  # until its probes have seen both
        proxy.answers("/here", 200)
    before = asked(proxy)
    proxy.answers("/here", 200)

    assert asked(proxy)[:2] == before[:2]


def test_who_is_alive_is_asked_where_none_is_ready(proxy: Proxy) -> None:
    """Their answers say what is wrong, in the form that clients know."""
    for upstream in proxy.upstreams:
        upstream.is_ready = False
    for _ in range(30):
        proxy.answers("/here", 200)

    posted = httpx.post(f"{proxy.url}/buy", content=b"x" * 10, timeout=WAIT_S)

    assert (posted.status_code, posted.text) == (200, "10")


def test_without_any_process_the_answer_is_503(proxy: Proxy) -> None:
    for upstream in proxy.upstreams:
        upstream.is_ready = upstream.is_alive = False

    proxy.answers("/here", 503)


def test_a_client_cannot_say_who_it_is(proxy: Proxy) -> None:
    said = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "gopher"}
    headers = httpx.get(f"{proxy.url}/here", headers=said, timeout=WAIT_S).json()

    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert headers["X-Forwarded-Proto"] == "http"


def test_an_event_comes_when_it_is_sent(proxy: Proxy) -> None:
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


def test_a_body_without_end_is_refused(proxy: Proxy) -> None:
    answer = httpx.post(f"{proxy.url}/buy", content=b"x" * 300_000, timeout=WAIT_S)

    assert answer.status_code == 413
    assert answer.json()["success"] is False


def test_nothing_secret_is_logged(proxy: Proxy) -> None:
    for upstream in proxy.upstreams:
        upstream.is_ready = upstream.is_alive = False
    proxy.answers("/here", 503)
    headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "key-of-a-payment"}
    httpx.get(f"{proxy.url}/reset/link", headers=headers, timeout=WAIT_S)

    log = proxy.log.read_text()
    assert "http.log.error" in log, "expected it to say that something failed"
    assert [word for word in (SECRET, "key-of-a-payment", "/reset/link") if word in log] == []
