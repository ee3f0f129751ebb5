"""Pages as responses: Jinja2 templates, in which every text is escaped and every name must exist.

All of them carry the headers that guard them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from mintscope.base.clock import Clock
from mintscope.base.foreign import visible
from mintscope.base.time import iso_time
from mintscope.core.accounts.people.session import Session
from mintscope.core.market.updates.server_sent import CONTENT_TYPE
from mintscope.edges.server.response import NO_STORE, PLAIN, Header, PushedResponse, Response
from mintscope.edges.server.streams.outlet import Outlet
from mintscope.edges.web.figures.numbers import dollars, percent, price, short_price
from mintscope.edges.web.figures.sparkline import sparkline
from mintscope.edges.web.pages.highlight import highlight
from mintscope.edges.web.pages.markdown import markdown_of
from mintscope.edges.web.pages.page import (
    COOKIE,
    END_SESSION,
    NOTICES,
    Markdown,
    NoContent,
    Page,
    PlainText,
    Pushed,
    Redirect,
    TextFile,
    WholeResponse,
)
from mintscope.edges.web.pages.words import (
    address_text,
    ago_text,
    describe_agent,
    foreign_text,
    old_text,
    prose_text,
    until_text,
    utc_text,
)

HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")
MARKDOWN: Final[Header] = (b"content-type", b"text/markdown; charset=utf-8")
EVENTS: Final[tuple[Header, ...]] = (
    (b"content-type", CONTENT_TYPE),
    (b"x-accel-buffering", b"no"),  # a proxy that keeps events back makes them late
)
YEAR_S: Final = 365 * 86_400
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    b" connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
GUARDS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    # Not no-referrer: with it browsers send forms with `Origin: null`, even to their own site.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
)
SECURE_GUARD: Final[Header] = (b"strict-transport-security", b"max-age=%d" % YEAR_S)
COOKIE_FORM: Final = "Path=/; Secure; HttpOnly; SameSite=Lax"
WHOLE_MAIN: Final[tuple[Header, ...]] = (
    (b"hx-retarget", b"main"),
    (b"hx-reselect", b"main"),
    (b"hx-reswap", b"outerHTML"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """The surroundings of a page: its reader, its address, and its notice.

    notice  a key of NOTICES; any other text says nothing
    """

    session: Session | None
    path: str
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """Who operates the service, as configured; "" and None are not shown.

    contact, terms, privacy   addresses: `mailto:` or https
    refunds                   when payments are refunded, in plain text
    """

    name: str = ""
    contact: str | None = None
    terms: str | None = None
    privacy: str | None = None
    refunds: str = ""


NO_OPERATOR: Final = Operator()


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Optional parts of the pages here.

    has_people          what people need: accounts, settings; the API is at the same address
    has_administration  what administrators need
    has_mailbox         e-mails are shown at /mailbox
    has_payments        requests and credits are sold
    needs_second_factor administration is for administrators who have one
    operator            who operates the service
    """

    has_people: bool = True
    has_administration: bool = True
    has_mailbox: bool = False
    has_payments: bool = False
    needs_second_factor: bool = False
    operator: Operator = NO_OPERATOR


class PageWriter:
    """Turns what handlers return into responses.

    Besides a page's own facts, every template sees `session`, `path`, `notice`, `errors`,
    `values`, `features`, `pages`, `now`, `static(name)`, and the filters `utc`, `iso`, `ago`,
    `until`, `old`, `agent`, `visible`, `foreign`, `address`, `prose`, `highlight`, and of
    `figures`: `price`, `short`, `dollars`, `percent`, `sparkline`.

    pages       the paths of all pages that there are: a link to any other is not shown
    is_secure   every address of the site is https
    """

    def __init__(
        self,
        *,
        static: Callable[[str], str],
        features: Features,
        pages: frozenset[str],
        clock: Clock,
        is_secure: bool,
    ) -> None:
        self._environment = _environment(static, features, pages)
        self._clock = clock
        self._is_secure = is_secure
        self._kept: dict[str, tuple[str, bytes]] = {}

    def write(
        self,
        page: WholeResponse,
        context: PageContext,
        *,
        headers: tuple[Header, ...] = (),
        is_htmx: bool = False,
    ) -> Response:
        """Return the response that is *page*, with *headers*.

        is_htmx   a script asked for it. It follows a redirect unseen, so it gets another page's
                  address; and an error replaces all of the content
        """
        match page:
            case Page():
                body = self._body(page, context)
                wrong = HTTPStatus.UNPROCESSABLE_ENTITY if page.errors else HTTPStatus.OK
                response = Response(page.status or wrong, body, (HTML,))
                if is_htmx and response.status >= HTTPStatus.BAD_REQUEST:
                    headers += WHOLE_MAIN
            case Markdown():
                text = markdown_of(self._render(page.page, context), page.origin)
                response = Response(HTTPStatus.OK, text.encode(), (MARKDOWN,))
            case PlainText():
                response = Response(HTTPStatus.OK, page.text.encode(), (PLAIN,))
            case TextFile():
                kind = f"{page.media_type}; charset=utf-8".encode()
                saved = f'attachment; filename="{page.name}"'.encode()
                named = ((b"content-type", kind), (b"content-disposition", saved))
                response = Response(HTTPStatus.OK, page.text.encode(), named)
            case Redirect():
                leaves = is_htmx and page.path.startswith(("/sign-in", "/prove"))
                status = HTTPStatus.NO_CONTENT if leaves else HTTPStatus.SEE_OTHER
                name = b"hx-redirect" if leaves else b"location"
                response = Response(status, b"", (PLAIN, (name, _location(page).encode())))
            case NoContent():
                response = Response(HTTPStatus.NO_CONTENT, b"", (PLAIN,))
        response.headers += (NO_STORE, *headers, *GUARDS)
        if self._is_secure:
            response.headers += (SECURE_GUARD,)
        if isinstance(page, Page | Redirect) and page.cookie is not None:
            response.headers += ((b"set-cookie", _cookie(page.cookie).encode()),)
        return response

    def push(self, page: Pushed) -> PushedResponse:
        """Return the response whose body is written bit by bit."""

        async def push(outlet: Outlet) -> None:
            await page.push(outlet, self._macros)

        return PushedResponse(HTTPStatus.OK, push, (*EVENTS, NO_STORE, *GUARDS))

    def _macros(self, template: str) -> Any:
        return self._environment.get_template(template).module

    def _body(self, page: Page, context: PageContext) -> bytes:
        """Return what is sent of *page*; of a template the newest text that is kept."""
        name, body = self._kept.get(page.template, ("", b""))
        if not page.kept_as or page.kept_as != name:
            body = self._render(page, context).encode()
            if page.kept_as:
                self._kept[page.template] = page.kept_as, body
        return body

    def _render(self, page: Page, context: PageContext) -> str:
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
def _environment(
    static: Callable[[str], str], features: Features, pages: frozenset[str]
) -> Environment:
    """Return the templates, each compiled once a process."""
    environment = Environment(
        loader=PackageLoader("mintscope.edges.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(static=static, features=features, pages=pages)
    environment.filters.update(
        utc=utc_text,
        iso=iso_time,
        ago=ago_text,
        until=until_text,
        old=old_text,
        agent=describe_agent,
        visible=visible,
        foreign=foreign_text,
        address=address_text,
        price=price,
        short=short_price,
        dollars=dollars,
        percent=percent,
        sparkline=sparkline,
        prose=prose_text,
        highlight=highlight,
    )
    return environment


def _location(redirect: Redirect) -> str:
    """Return an address on this very site: it begins with one slash."""
    assert redirect.path.startswith("/")
    assert not redirect.path.startswith(("//", "/\\"))
    if not redirect.notice:
        return redirect.path
    mark = "&" if "?" in redirect.path else "?"
    return f"{redirect.path}{mark}{urlencode({'notice': redirect.notice})}"


def _cookie(value: str) -> str:
    """Return the header: a session's ends with the browser; the server ends it before."""
    if value == END_SESSION:
        return f"{COOKIE}=; {COOKIE_FORM}; Max-Age=0"
    return f"{COOKIE}={value}; {COOKIE_FORM}"
