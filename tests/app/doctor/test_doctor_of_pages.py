"""The doctor checks that people can use the pages at the configured address."""

import pytest

from mintscope.app.config.config import ApiConfig, WebConfig
from mintscope.app.config.groups import Config
from mintscope.app.doctor.finding import Level
from mintscope.app.doctor.machine import check_pages


@pytest.mark.parametrize(
    ("host", "origin", "level", "what"),
    [
        ("127.0.0.1", None, Level.OK, "pages: http://127.0.0.1:8402"),
        ("127.0.0.1", "https://a.example.org", Level.OK, "pages: https://a.example.org"),
        ("0.0.0.0", "https://a.example.org", Level.OK, "pages: https://a.example.org"),
        ("0.0.0.0", None, Level.WARN, "pages: forms are accepted from http://127.0.0.1:8402 only"),
        ("127.0.0.1", "http://a.example.org", Level.WARN, "pages: http://a.example.org sends"),
        ("0.0.0.0", "http://localhost:8402", Level.OK, "pages: http://localhost:8402"),
        ("10.0.0.1", "http://a.example.org", Level.WARN, "pages: http://a.example.org sends"),
    ],
)
def test_an_origin_at_which_forms_are_refused_or_unsafe_is_a_warning(
    host: str, origin: str | None, level: Level, what: str
) -> None:
    (finding,) = check_pages(Config(api=ApiConfig(host=host, origin=origin)))

    assert finding.level is level
    assert finding.what.startswith(what)


def test_disabled_pages_are_ok() -> None:
    (finding,) = check_pages(Config(web=WebConfig(enabled=False), api=ApiConfig(host="0.0.0.0")))

    assert finding.level is Level.OK
