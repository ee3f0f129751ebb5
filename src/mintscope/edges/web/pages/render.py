"""Pages as text: Jinja2 templates, in which every text is escaped and every name must exist."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, HOUR_MS, MINUTE_MS, iso_time, utc
from mintscope.core.accounts.application import visible
from mintscope.core.accounts.people.session import Session
from mintscope.edges.web.pages.page import NOTICES, Page

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """What surrounds a page: who sees it, where, and what was just done.

    notice  a key of NOTICES; any other text says nothing
    """

    session: Session | None
    path: str
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the pages offer here, beside what they always do.

    has_people          what people need: accounts, settings; the API is at the same address
    has_administration  what administrators need
    has_mailbox         e-mails are shown at /mailbox
    has_payments        requests and credits are sold
    """

    has_people: bool = True
    has_administration: bool = True
    has_mailbox: bool = False
    has_payments: bool = False


class Renderer:
    """Knows the templates.

    Besides a page's own facts, every template sees `session`, `path`, `notice`, `errors`,
    `values`, `features`, `now`, `static(name)`, and the filters `utc`, `iso`, `ago`, `until`,
    `agent`, `visible` and `foreign`.
    """

    def __init__(self, *, static: Callable[[str], str], features: Features, clock: Clock) -> None:
        self._clock = clock
        self._environment = _environment(static, features)

    def render(self, page: Page, context: PageContext) -> str:
        """Return the text of *page*."""
        return self._environment.get_template(page.template).render(
            page.facts,
            session=context.session,
            path=context.path,
            notice=NOTICES.get(context.notice, ""),
            errors=page.errors,
            values=page.values,
            now=self._clock.now(),
        )


@lru_cache(maxsize=8)
def _environment(static: Callable[[str], str], features: Features) -> Environment:
    """Return the templates, each compiled once a process."""
    environment = Environment(
        loader=PackageLoader("mintscope.edges.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(static=static, features=features)
    environment.filters.update(
        utc=utc_text,
        iso=iso_time,
        ago=ago_text,
        until=until_text,
        agent=describe_agent,
        visible=visible,
        foreign=foreign_text,
    )
    return environment


def foreign_text(text: str) -> Markup:
    """Return *text* of a stranger as an island: it turns nothing around it, and hides nothing."""
    return Markup("<bdi>{}</bdi>").format(visible(text.replace("\r\n", "\n"), keep="\n\t"))


def utc_text(at: UnixMs) -> str:
    """Return *at* for people: 22 Nov 2026, 06:13 UTC."""
    moment = utc(at)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def ago_text(at: UnixMs, now: UnixMs) -> str:
    """Return how long before *now* it was."""
    return "just now" if now - at < MINUTE_MS else f"{_span(now - at)} ago"


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
