"""The doctor reports whether the addresses of clients behind a proxy are known."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from typing_extensions import override

from mintscope.app.config.config import ApiConfig, MetricsConfig
from mintscope.app.config.groups import Config
from mintscope.app.doctor.finding import Level
from mintscope.app.doctor.machine import check_proxies

PUBLIC = "https://a.example.org"


@pytest.mark.parametrize(
    ("origin", "proxies", "level", "what"),
    [
        (None, (), Level.OK, "proxies: none; the address"),
        ("http://a.example.org", (), Level.OK, "proxies: none; the address"),
        (
            PUBLIC,
            (),
            Level.WARN,
            "proxies: none is trusted, so all clients seem to have the address",
        ),
        (PUBLIC, ("10.0.0.0/8",), Level.OK, "proxies: 10.0.0.0/8"),
        (PUBLIC, ("0.0.0.0/0",), Level.WARN, "proxies: 0.0.0.0/0 trusts everyone"),
        (PUBLIC, ("::/0",), Level.WARN, "proxies: ::/0 trusts everyone"),
    ],
)
def test_proxies_that_do_not_fit_the_origin_are_a_warning(
    origin: str | None, proxies: tuple[str, ...], level: Level, what: str
) -> None:
    metrics = MetricsConfig(enabled=False)
    api = ApiConfig(origin=origin, trusted_proxies=proxies)
    (finding,) = check_proxies(Config(api=api, metrics=metrics))

    assert finding.level is level
    assert finding.what.startswith(what)


class Api(BaseHTTPRequestHandler):
    """Serves the metrics of a running api."""

    text = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.text)

    @override
    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"missing": "0.0"}, ["proxies: 10.0.0.0/8"]),
        (
            {"unreadable": "7.0"},
            ["proxies: requests came with an X-Forwarded-For whose last entry is no address, 7"],
        ),
        (
            {"missing": "12.0", "unreadable": "1.0"},
            ["proxies: requests came from a trusted proxy without", "proxies: requests came with"],
        ),
    ],
)
def test_faults_of_a_proxy_are_read_from_the_metrics_of_the_running_api(
    counts: dict[str, str], found: list[str]
) -> None:
    lines = [
        f'mintscope_forwarded_faults_total{{fault="{fault}"}} {count}\n'
        for fault, count in counts.items()
    ]
    Api.text = b"# HELP x y\n" + "".join(lines).encode() + b"mintscope_x_total 9.0\n"
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        metrics = MetricsConfig(enabled=True, host="127.0.0.1", api_port=server.server_port)
        api = ApiConfig(origin=PUBLIC, trusted_proxies=("10.0.0.0/8",))
        findings = list(check_proxies(Config(api=api, metrics=metrics)))
        server.shutdown()

    assert [each.what[: len(text)] for each, text in zip(findings, found, strict=True)] == found
    assert all(each.fix for each in findings if each.level is Level.WARN)
