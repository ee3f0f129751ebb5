"""Results of page handlers, and texts for pages."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup, escape

from mintscope.kit.errors import visible
from mintscope.kit.http.response import Outlet
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, HOUR_S, MINUTE_MS, MINUTE_S, SECOND_MS, utc

COOKIE: Final = "__Host-mintscope"
VISIT: Final = "__Host-mintscope-visit"
NO_ERRORS: Final[Mapping[str, str]] = {}
END_SESSION: Final = ""  # cookie value that deletes the session cookie
GONE: Final = 404
# Notices at the top of a page, shown once after an action; addresses contain only the key.
NOTICES: Final[Mapping[str, str]] = {
    "signed-up": "Welcome. Your account is ready.",
    "signed-out": "You are signed out.",
    "password-changed": "Your password is changed. All other sessions were ended.",
    "password-reset": "Your password is set. Sign in with it.",
    "reset-sent": "If there is an account with that address, a link is on its way to its mailbox.",
    "verification-sent": "We sent you a link, unless one was sent in the last five minutes, or"
    " five today.",
    "verified": "Your mailbox is verified.",
    "claim-sent": "We sent a link to the mailbox of that agent, unless one was sent in the last"
    " five minutes. Open it in this browser.",
    "claimed": "The agent's API keys are yours now.",
    "session-ended": "That session is ended.",
    "sessions-ended": "All other sessions are ended.",
    "address-sent": "We sent a link to the new address, unless too many were sent lately. Open it"
    " in this browser; nothing changes until then.",
    "address-changed": "Your e-mail address is changed. All other sessions were ended.",
    "account-deleted": "Your account is deleted.",
    "app-added": "The authenticator app is added. All other sessions were ended.",
    "passkey-added": "The passkey is added. All other sessions were ended.",
    "factor-removed": "It is removed and no longer works for signing in.",
    "account-renamed": "Your user name is changed.",
    "key-renamed": "The key is renamed.",
    "key-revoked": "The key is revoked.",
    "key-capped": "The cap is changed.",
    "form-kept": "This form was not saved, because its session had ended. Check it and send it.",
    "key-networks": "The allowed networks are changed.",
    "view-bought": "One credit was spent. This token is shown for 15 minutes, in every timeframe.",
    "backtest-bought": "One credit was spent. This test is shown for 15 minutes.",
    "no-credits": "There was no credit left to spend, so nothing was spent.",
    "token-added": "The token is tracked from the next block on.",
    "token-declined": "The request is declined.",
    "track-verify": "Verify your e-mail address first: /settings/account/email.",
    "track-requested": "Your request is listed for administrators.",
    "track-later": "You have made 10 requests in a day. Try again tomorrow.",
    "token-removed": "The token is no longer tracked.",
    "past-asked": "Requested. The cost appears below in a moment.",
    "past-confirm": "Queued: the backfill starts after the one in progress.",
    "past-cancel": "The backfill is cancelled.",
    "past-as-it-was": "Nothing was changed: the backfill moved on meanwhile.",
    "sales-paused": "Sales are paused. Credits keep working.",
    "sales-resumed": "Sales are open again.",
    "approved": "Approved. An e-mail is on its way to the applicant.",
    "rejected": "Rejected. An e-mail is on its way to the applicant.",
    "approved-scopes": "Approved. Its keys have the scopes now.",
    "rejected-scopes": "Rejected. Its keys are unchanged.",
    "decision-undone": "The decision is undone. If it was e-mailed, another e-mail follows.",
    "application-reset": "The key is revoked. The same secret can be exchanged once more.",
    "application-forgotten": "The application is forgotten. Its address may apply again.",
    "credits-deposited": "The credits are in your account. The credit token is empty now.",
    "alert-made": "The alert is on. It watches from the next trade on.",
    "alert-tested": "The test is listed below, with its delivery.",
    "alert-tests-used": "Nothing was sent: the limit is 10 tests an hour.",
    "alert-changed": "The alert is changed.",
    "alert-deleted": "The alert is deleted.",
    "search-near": "Nothing is called exactly that. This is the closest name.",
    "spend-alert-set": "The spend alert is saved.",
    "telegram-unlinked": "The chat is unlinked. Nothing more is sent there.",
    "wallet-linked": "The wallet is linked. Its payments are listed below.",
    "wallet-unlinked": "The wallet is unlinked. Its payments are no longer listed.",
    "watchlist-made": "The watchlist is made. Put tokens on it.",
    "watchlist-renamed": "The watchlist is renamed.",
    "watchlist-deleted": "The watchlist is deleted.",
    "watchlist-full": "Your watchlist is full: remove a token first.",
    "account-removed": "The account is removed.",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A template and its values.

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
    """Plain text, for scripts."""

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

    push   as in `kit.http.response.PushedResponse`, but with a Macros function as second argument
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
    """Return a visitor's *text*, isolated so that it cannot reorder or hide the text around it."""
    return Markup("<bdi>{}</bdi>").format(visible(text.replace("\r\n", "\n"), keep="\n\t"))


def address_text(address: str) -> Markup:
    """Return a visitor's e-mail *address*, isolated, with a possible line break before @."""
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
    for unit_ms, name in ((DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute")):
        if milliseconds >= unit_ms:
            count = (milliseconds + (unit_ms // 2 if rounds else 0)) // unit_ms
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a minute"


def describe_agent(agent: str) -> str:
    """Return the browser and the system in the User-Agent *agent* as text: Firefox on Linux."""
    browser = _first(BROWSERS, agent)
    system = _first(SYSTEMS, agent)
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or "An unknown browser"


def _first(names: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for sign, name in names if sign in agent), "")
