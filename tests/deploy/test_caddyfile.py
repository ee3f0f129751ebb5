"""The Caddyfile is valid, and fits the service behind Caddy."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from deployed import environment_of, services, units
from proxies import CADDY, caddyfile, settings

from mintscope.api.health import REMEMBERED_S
from mintscope.app.config.config import ApiConfig
from mintscope.kit.http.application import GRACE_S
from mintscope.payments.protocol.envelope import HELD_OPEN_S
from support.deployment import DEPLOY

API = ApiConfig()
TEXT = (DEPLOY / "Caddyfile").read_text()
SECOND = 10**9

pytestmark = pytest.mark.process


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CADDY, *words],
        env=settings(folder, SITE_HOST="api.example.org"),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the configuration, as JSON, that Caddy derives from the Caddyfile."""
    folder = tmp_path_factory.mktemp("caddy")
    ran = run(folder, "adapt", "--config", str(DEPLOY / "Caddyfile"), "--adapter", "caddyfile")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def found(tree: Any, handler: str) -> list[Any]:
    """Return every part of *tree* whose handler is *handler*, also those inside other parts."""
    if isinstance(tree, list):
        return [each for branch in tree for each in found(branch, handler)]
    if not isinstance(tree, dict):
        return []
    own = [tree] if tree.get("handler") == handler else []
    return own + [each for branch in tree.values() for each in found(branch, handler)]


def test_caddy_accepts_the_caddyfile(tmp_path: Path) -> None:
    """The upstreams are addresses of this machine, because Caddy would look up host names."""
    file = tmp_path / "Caddyfile"
    file.write_text(caddyfile(["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]))

    ran = run(tmp_path, "validate", "--config", str(file), "--adapter", "caddyfile")

    assert ran.returncode == 0, ran.stderr


def test_caddy_refuses_a_directive_that_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "Caddyfile"
    file.write_text(TEXT.replace("health_uri", "health_url"))

    ran = run(tmp_path, "adapt", "--config", str(file), "--adapter", "caddyfile")

    assert ran.returncode != 0


def test_the_caddyfile_is_formatted(tmp_path: Path) -> None:
    assert run(tmp_path, "fmt", str(DEPLOY / "Caddyfile")).stdout == TEXT


def test_requests_go_to_the_apis_of_compose(adapted: Any) -> None:
    proxies = found(adapted, "reverse_proxy")

    assert len(proxies) == 2
    for proxy in proxies:
        hosts = [each["dial"] for each in proxy["upstreams"]]
        assert hosts == [f"{name}:{API.port}" for name in services("api")]


def test_the_first_proxy_probes_readiness_and_the_second_liveness(adapted: Any) -> None:
    (ready, alive) = (
        proxy["health_checks"]["active"]["uri"] for proxy in found(adapted, "reverse_proxy")
    )
    assert (ready, alive) == ("/readyz", "/healthz")


def test_caddy_passes_bodies_and_headers_as_large_as_the_api_accepts(adapted: Any) -> None:
    (body,) = found(adapted, "request_body")
    (server,) = adapted["apps"]["http"]["servers"].values()

    assert API.body_bytes_max < body["max_size"] <= 1024 * 1024
    assert API.header_bytes_max < server["max_header_bytes"] <= 1024 * 1024


def test_timeouts_of_caddy_fit_the_timeouts_of_the_api(adapted: Any) -> None:
    grace_s = adapted["apps"]["http"]["grace_period"] / SECOND
    (stop_s,) = re.fullmatch(r"(\d+)s", services()["caddy"]["stop_grace_period"]).groups()  # type: ignore[union-attr]

    assert GRACE_S <= grace_s < int(stop_s)
    for proxy in found(adapted, "reverse_proxy"):
        transport = proxy["transport"]
        assert transport["response_header_timeout"] / SECOND > HELD_OPEN_S
        assert transport["keep_alive"]["idle_timeout"] / SECOND < API.keep_alive_s


def test_caddy_sees_a_draining_process_before_it_stops(adapted: Any) -> None:
    """/readyz caches its answer, and Caddy removes a process only after several failed probes."""
    api = environment_of(units()["mintscope-api@.service"])
    for environment in (services()["api-1"]["environment"], api):
        for proxy in found(adapted, "reverse_proxy"):
            active = proxy["health_checks"]["active"]
            seen_s = REMEMBERED_S + active["fails"] * active["interval"] / SECOND
            assert seen_s < int(environment["MINTSCOPE_DRAIN_S"])


def test_events_and_pages_are_not_compressed(adapted: Any) -> None:
    (encode,) = found(adapted, "encode")
    kinds = encode["match"]["headers"]["Content-Type"]

    assert "application/json*" in kinds
    assert not [kind for kind in kinds if kind.startswith(("text/event", "text/h", "*", "text/*"))]


def test_paths_and_headers_of_requests_are_not_logged() -> None:
    """Paths contain links from e-mails, and headers contain keys of payments."""
    assert len(re.findall(r"^\s*log\b", TEXT, re.MULTILINE)) == 1
    assert "request>headers delete" in TEXT
    assert "request>uri delete" in TEXT
