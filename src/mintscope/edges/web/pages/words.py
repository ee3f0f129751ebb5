"""Texts of pages: times, browsers, and what strangers wrote, for people."""

import re
from functools import lru_cache
from typing import Final

from markupsafe import Markup, escape

from mintscope.base.foreign import visible
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_MS, HOUR_S, MINUTE_MS, MINUTE_S, SECOND_MS, utc

# The first that occurs decides: every browser also names those it wants to be taken for.
BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("HeadlessChrome/", "Chromium"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-httpx/", "a Python script"),
)
SYSTEMS: Final = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)

LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")  # of Markdown


def foreign_text(text: str) -> Markup:
    """Return *text* of a stranger as an island: it turns nothing around it, and hides nothing."""
    return Markup("<bdi>{}</bdi>").format(visible(text.replace("\r\n", "\n"), keep="\n\t"))


def address_text(address: str) -> Markup:
    """Return *address*, an e-mail address of a stranger, as an island that breaks at its @."""
    name, at, domain = visible(address).rpartition("@")
    return Markup("<bdi>{}{}{}{}</bdi>").format(name, Markup("<wbr>") if at else "", at, domain)


@lru_cache(maxsize=2_048)  # all that the documentation has
def prose_text(text: str) -> Markup:
    """Return *text*, of our own, as HTML: in backticks is code, links are their words."""
    parts = LINK.sub(r"\1", text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def utc_text(at: UnixMs) -> str:
    """Return *at* for people: 22 Nov 2026, 06:13 UTC."""
    moment = utc(at)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def ago_text(at: UnixMs, now: UnixMs) -> str:
    """Return how long before *now* it was."""
    return "just now" if now - at < MINUTE_MS else f"{_span(now - at)} ago"


def old_text(age_ms: int) -> str:
    """Return how old the newest block is; its time is known in whole seconds."""
    seconds = age_ms // SECOND_MS
    if seconds < 1:
        return "under a second old"
    if seconds < 2 * MINUTE_S:
        return f"{seconds} s old"
    if seconds < 2 * HOUR_S:
        return f"{seconds // MINUTE_S} min old"
    return f"{seconds // HOUR_S} h old"


def until_text(at: UnixMs, now: UnixMs) -> str:
    """Return how long after *now* it will be."""
    return "now" if at <= now else f"in {_span(at - now, rounds=True)}"


def _span(milliseconds: int, *, rounds: bool = False) -> str:
    """Return a time span in its largest unit that fits: rounded down, or to the nearest."""
    for unit_ms, name in ((DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute")):
        if milliseconds >= unit_ms:
            count = (milliseconds + (unit_ms // 2 if rounds else 0)) // unit_ms
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"


def describe_agent(agent: str) -> str:
    """Return a short name of the browser that sent *agent* as its User-Agent."""
    browser = _first(BROWSERS, agent)
    system = _first(SYSTEMS, agent)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "An unknown browser"


def _first(names: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for sign, name in names if sign in agent), "")
