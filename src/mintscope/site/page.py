"""Results of page handlers, and texts for pages."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec
from markupsafe import Markup, escape

from mintscope.kit.errors import visible
from mintscope.kit.http.response import Outlet
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, HOUR_S, MINUTE_MS, MINUTE_S, SECOND_MS, utc

T = TypeVar("T")

# With the prefix `__Host-`, browsers accept a cookie only from this host, over https.
COOKIE: Final = "__Host-mintscope"
VISIT: Final = "__Host-mintscope-visit"
NO_ERRORS: Final[Mapping[str, str]] = {}
END_SESSION: Final = ""  # cookie value that deletes the session cookie
GONE: Final = 404


def read_texts(name: str, shape: type[T]) -> T:
    """Return the texts in the file *name* of `site/texts`, decoded as *shape*."""
    return msgspec.toml.decode((files("mintscope.site") / "texts" / name).read_bytes(), type=shape)


NOTICES: Final = read_texts("notices.toml", dict[str, str])


@dataclass(frozen=True, slots=True)
class Page:
    """A page to render: a template with its values, and the properties of the response.

    errors  errors of the form, by field; the error "" is about the whole form
    values  contents of the form's fields, for the user to correct; never a password
    status  HTTP status; by default 422 with errors and 200 without errors
    kept_as cache key of the rendered page if it is the same for all visitors; "": not cached
    cookie  session cookie to set, or END_SESSION
    visit   cookie to set, which identifies this browser in a passkey challenge
    """

    template: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    status: int | None = None
    cookie: str | None = None
    kept_as: str = ""
    visit: str | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect to another page of this site, which shows *notice*, a key of NOTICES, once."""

    path: str
    notice: str = ""
    cookie: str | None = None


@dataclass(frozen=True, slots=True)
class PlainText:
    """A response of plain text, for scripts."""

    text: str


@dataclass(frozen=True, slots=True)
class Markdown:
    """The article of *page* as Markdown; links to this site begin with *origin*."""

    page: Page
    origin: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """A UTF-8 text file that browsers save as *name*; *media_type* has no charset."""

    name: str
    media_type: str
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG that other sites may show and browsers and proxies may cache for *fresh_s* seconds."""

    png: bytes
    fresh_s: int


@dataclass(frozen=True, slots=True)
class NoContent:
    """An empty response: nothing has changed, and the browser keeps the current page."""


# Returns the macros of a template as attributes; each macro returns HTML.
Macros = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Pushed:
    """Server-sent events, written whenever there is news.

    push   writes the events to the client until the stream ends; its second argument returns the
           macros of a template
    """

    push: Callable[[Outlet, Macros], Awaitable[None]]


WholeResponse = Page | Redirect | PlainText | Markdown | TextFile | NoContent
PageResponse = WholeResponse | Picture | Pushed


def link_gone(purpose: str) -> Page:
    """Return the page for an unknown, used or expired link; the page does not state the cause."""
    return Page("link_gone.html", {"purpose": purpose}, status=GONE)


# The first match counts, because browsers also name other browsers for compatibility.
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

LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")  # a Markdown link


def foreign_text(text: str) -> Markup:
    """Return a visitor's *text* as HTML that cannot reorder or hide the text around it."""
    # Forms send line ends as CR and LF; `visible` would show each CR as an escape.
    return Markup("<bdi>{}</bdi>").format(visible(text.replace("\r\n", "\n"), keep="\n\t"))


def address_text(address: str) -> Markup:
    """Return the e-mail *address* of a visitor as HTML, with a possible line break before @."""
    name, at, domain = visible(address).rpartition("@")
    return Markup("<bdi>{}{}{}{}</bdi>").format(name, Markup("<wbr>") if at else "", at, domain)


@lru_cache(maxsize=2_048)  # enough for all documentation texts
def prose_text(text: str) -> Markup:
    """Return trusted *text* as HTML: backticks mark code, and links are reduced to their text."""
    parts = LINK.sub(r"\1", text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def utc_text(at: UnixMs) -> str:
    """Return *at* as text: 22 Nov 2026, 06:13 UTC."""
    moment = utc(at)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def ago_text(at: UnixMs, now: UnixMs) -> str:
    """Return the time from *at* to *now* as text: 3 hours ago."""
    return "just now" if now - at < MINUTE_MS else f"{_span(now - at)} ago"


def old_text(age_ms: int) -> str:
    """Return the age of the newest block as text, in whole seconds, minutes or hours."""
    seconds = age_ms // SECOND_MS
    if seconds < 1:
        return "under a second old"
    if seconds < 2 * MINUTE_S:
        return f"{seconds} s old"
    if seconds < 2 * HOUR_S:
        return f"{seconds // MINUTE_S} min old"
    return f"{seconds // HOUR_S} h old"


def until_text(at: UnixMs, now: UnixMs) -> str:
    """Return the time from *now* to *at* as text: in 3 hours."""
    return "now" if at <= now else f"in {_span(at - now, rounds=True)}"


def _span(milliseconds: int, *, rounds: bool = False) -> str:
    """Return a time span in its largest suitable unit, rounded down, or to nearest if *rounds*."""
    if milliseconds < MINUTE_MS:
        return "less than a minute"
    # The unit is chosen after rounding: 59.6 minutes are an hour.
    minutes, hours, days = (
        (milliseconds + (unit_ms // 2 if rounds else 0)) // unit_ms
        for unit_ms in (MINUTE_MS, HOUR_MS, DAY_MS)
    )
    if minutes < HOUR_MS // MINUTE_MS:
        return _counted(minutes, "minute")
    if hours < DAY_MS // HOUR_MS:
        return _counted(hours, "hour")
    return _counted(days, "day")


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def describe_agent(agent: str) -> str:
    """Return the browser and the system in the User-Agent *agent* as text: Firefox on Linux."""
    browser = _first(BROWSERS, agent)
    system = _first(SYSTEMS, agent)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "An unknown browser"


def _first(names: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for sign, name in names if sign in agent), "")
