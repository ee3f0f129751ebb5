"""The site's words for times, browsers and messages."""

import pytest

from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import iso_time
from mintscope.site.page import ago_text, describe_agent, until_text, utc_text
from mintscope.site.routes import sentence

NOW = UnixMs(1_795_000_000_000)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("span_ms", "ago", "until"),
    [
        (-5, "just now", "now"),
        (0, "just now", "now"),
        (1, "just now", "in less than a minute"),
        (MINUTE_MS - 1, "just now", "in less than a minute"),
        (MINUTE_MS, "1 minute ago", "in 1 minute"),
        (2 * MINUTE_MS, "2 minutes ago", "in 2 minutes"),
        (HOUR_MS - 1, "59 minutes ago", "in 1 hour"),
        (HOUR_MS, "1 hour ago", "in 1 hour"),
        (DAY_MS - 1, "23 hours ago", "in 1 day"),
        (DAY_MS, "1 day ago", "in 1 day"),
        (90 * DAY_MS - 1, "89 days ago", "in 90 days"),
        (400 * DAY_MS, "400 days ago", "in 400 days"),
    ],
)
def test_spans_of_time_have_these_texts(span_ms: int, ago: str, until: str) -> None:
    assert ago_text(UnixMs(NOW - span_ms), NOW) == ago
    assert until_text(UnixMs(NOW + span_ms), NOW) == until


def test_points_in_time_are_shown_in_utc() -> None:
    assert utc_text(NOW) == "18 Nov 2026, 11:06 UTC"
    assert iso_time(UnixMs(NOW + 999)) == "2026-11-18T11:06:40Z"
    assert utc_text(UnixMs(0)) == "1 Jan 1970, 00:00 UTC"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (f"{WINDOWS} Chrome/140.0.0.0 Safari/537.36", "Chrome on Windows"),
        (f"{WINDOWS} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0", "Edge on Windows"),
        (f"{MAC} Version/19.0 Safari/605.1.15", "Safari on macOS"),
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox on Linux",
        ),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        ("curl/8.5.0", "curl"),
        ("Something (Linux)", "Linux"),
        ("", "An unknown browser"),
        ("<script>", "An unknown browser"),
    ],
)
def test_a_user_agent_is_shown_as_browser_and_system(agent: str, name: str) -> None:
    assert describe_agent(agent) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [("expected a", "Expected a."), ("Is it?", "Is it?"), ("Done.", "Done."), ("", ".")],
)
def test_a_text_becomes_a_sentence(text: str, expected: str) -> None:
    assert sentence(text) == expected
