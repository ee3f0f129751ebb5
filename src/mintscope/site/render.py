"""Pages and static files as responses.

Every response has security headers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from mintscope.accounts.session import Session
from mintscope.accounts.user import TooManyAttempts
from mintscope.kit import errors
from mintscope.kit.clock import Clock
from mintscope.kit.http.application import LEVEL_OF_FILES, compress, etag_of, version_of
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import NO_STORE, PLAIN, Header, Outlet, PushedResponse, Response
from mintscope.kit.http.routes import Route
from mintscope.kit.http.server_sent import CONTENT_TYPE
from mintscope.kit.time import iso_time
from mintscope.site.figures import dollars, percent, price, short_price, sparkline
from mintscope.site.markdown import highlight, markdown_of
from mintscope.site.page import (
    COOKIE,
    END_SESSION,
    NOTICES,
    VISIT,
    Markdown,
    NoContent,
    Page,
    Picture,
    PlainText,
    Pushed,
    Redirect,
    TextFile,
    WholeResponse,
    address_text,
    ago_text,
    describe_agent,
    foreign_text,
    old_text,
    prose_text,
    until_text,
    utc_text,
)
from mintscope.site.routes import FormOfAnotherSession, OriginRefused, sentence

HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")
MARKDOWN: Final[Header] = (b"content-type", b"text/markdown; charset=utf-8")
EVENTS: Final[tuple[Header, ...]] = (
    (b"content-type", CONTENT_TYPE),
    (b"x-accel-buffering", b"no"),  # prevents a proxy from buffering events
)
YEAR_S: Final = 365 * 86_400
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    b" connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
GUARDS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    # no-referrer would make browsers send forms with `Origin: null`, even to the same site.
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
    """The values of a page that depend on the request: session, path and notice.

    notice    a key of NOTICES; with any other text, the page shows no notice
    """

    session: Session | None
    path: str
    notice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """The operator of the service, as configured; empty values and None are not shown.

    contact, terms, privacy   URLs, which begin with `mailto:` or https
    refunds                   conditions of refunds, in plain text
    """

    name: str = ""
    contact: str | None = None
    terms: str | None = None
    privacy: str | None = None
    refunds: str = ""


NO_OPERATOR: Final = Operator()


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Optional features of the site.

    has_people           whether accounts, settings and market data are served; False on a separate
                         listener for administrators
    has_administration   whether pages for administrators are served
    has_mailbox          whether e-mails are shown at /mailbox
    has_payments         whether requests and credits are sold
    needs_second_factor  whether administrators need a second factor
    operator             who operates the service, for pages about the law and contact
    demo_wallet_seed     seed, in hex, of a wallet offered to every browser; "" if there is none
    """

    has_people: bool = True
    has_administration: bool = True
    has_mailbox: bool = False
    has_payments: bool = False
    needs_second_factor: bool = False
    operator: Operator = NO_OPERATOR
    demo_wallet_seed: str = ""


class PageWriter:
    """Converts results of page handlers into responses.

    In addition to the page's facts, every template has `session`, `path`, `notice`, `errors`,
    `values`, `features`, `pages`, `now`, `static(name)`, and the filters `utc`, `iso`, `ago`,
    `until`, `old`, `agent`, `visible`, `foreign`, `address`, `prose`, `highlight`, and those of
    `figures`: `price`, `short`, `dollars`, `percent`, `sparkline`.

    pages       paths of all pages; templates omit links to other paths
    is_secure   whether all URLs of the site use https
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
        # On a site that both http and https serve, HSTS would end plain HTTP.
        self._transport: tuple[Header, ...] = (SECURE_GUARD,) if is_secure else ()
        self._guards = (*GUARDS, *self._transport)
        # By template: the cache key `kept_as` of its newest cached page, and the body of that page.
        self._kept: dict[str, tuple[str, bytes]] = {}

    def write(
        self,
        page: WholeResponse,
        context: PageContext,
        *,
        headers: tuple[Header, ...] = (),
        is_htmx: bool = False,
    ) -> Response:
        """Return the response for *page*, with *headers*.

        is_htmx   whether htmx sent the request.  If so, a redirect to sign in or to confirm the
                  password makes the browser load the new page, and an error replaces the main
                  content
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
                # htmx would follow `location` itself and put the new page into the current one.
                leaves = is_htmx and page.path.startswith(("/sign-in", "/prove"))
                status = HTTPStatus.NO_CONTENT if leaves else HTTPStatus.SEE_OTHER
                name = b"hx-redirect" if leaves else b"location"
                response = Response(status, b"", (PLAIN, (name, _location(page).encode())))
            case NoContent():
                response = Response(HTTPStatus.NO_CONTENT, b"", (PLAIN,))
        response.headers += (NO_STORE, *headers, *self._guards)
        if isinstance(page, Page | Redirect):
            response.headers += tuple((b"set-cookie", each.encode()) for each in _cookies(page))
        return response

    def push(self, page: Pushed) -> PushedResponse:
        """Return a response that streams the events of *page*."""

        async def push(outlet: Outlet) -> None:
            await page.push(outlet, self._macros)

        return PushedResponse(HTTPStatus.OK, push, (*EVENTS, NO_STORE, *self._guards))

    def send(self, picture: Picture) -> Response:
        """Return the response that sends the image *picture*."""
        caching = b"public, max-age=%d" % picture.fresh_s
        kind: tuple[Header, ...] = ((b"content-type", b"image/png"), (b"cache-control", caching))
        headers = (*kind, *SHOWN_ELSEWHERE, *self._transport)
        return Response(HTTPStatus.OK, picture.png, headers)

    def _macros(self, template: str) -> Any:
        return self._environment.get_template(template).module

    def _body(self, page: Page, context: PageContext) -> bytes:
        """Return the body of *page*, from the cache if its `kept_as` is the same as before."""
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
    """Return the template environment; each template is compiled once per process."""
    environment = Environment(
        loader=PackageLoader("mintscope.site"),
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
        visible=errors.visible,
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
    """Return the URL of *redirect* with its notice; the path begins with exactly one slash."""
    assert redirect.path.startswith("/")
    # Browsers read `//host` and `/\host` as addresses of other sites.
    assert not redirect.path.startswith(("//", "/\\"))
    if not redirect.notice:
        return redirect.path
    mark = "&" if "?" in redirect.path else "?"
    return f"{redirect.path}{mark}{urlencode({'notice': redirect.notice})}"


def _cookies(page: Page | Redirect) -> Iterator[str]:
    """Yield Set-Cookie values of *page*, without a lifetime; END_SESSION deletes the cookie."""
    if page.cookie == END_SESSION:
        yield f"{COOKIE}=; {COOKIE_FORM}; Max-Age=0"
    elif page.cookie is not None:
        yield f"{COOKIE}={page.cookie}; {COOKIE_FORM}"
    if isinstance(page, Page) and page.visit is not None:
        yield f"{VISIT}={page.visit}; {COOKIE_FORM}"


FOREVER: Final[Header] = (b"cache-control", b"public, max-age=%d, immutable" % YEAR_S)
REVALIDATED: Final[Header] = (b"cache-control", b"no-cache")
FILE_GUARDS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
CONTENT_TYPES: Final = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
    "txt": b"text/plain; charset=utf-8",
}
ICON: Final = "icon.svg"
# Other sites may load responses with these headers: directories show the icon, for example.
SHOWN_ELSEWHERE: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


class StaticFiles:
    """Serves the files of `site/static`; its constructor reads and compresses them."""

    def __init__(self) -> None:
        folder = files("mintscope.site") / "static"
        self._bodies = {file.name: file.read_bytes() for file in folder.iterdir()}
        self._versions = {name: version_of(body) for name, body in self._bodies.items()}
        self._etags = {name: etag_of(body) for name, body in self._bodies.items()}
        self._gzipped = {
            name: compress(body, LEVEL_OF_FILES) for name, body in self._bodies.items()
        }

    def routes(self) -> list[Route]:
        """Return the routes of the files, and of the icon at `/favicon.ico`."""
        return [
            Route("GET", "/static/{file}", self.get),
            Route("GET", "/favicon.ico", self.get_icon),
        ]

    def __contains__(self, name: str) -> bool:
        """Return whether the file *name* exists."""
        return name in self._bodies

    def address(self, name: str) -> str:
        """Return the URL of the file *name*, which changes with the content of the file."""
        return f"/static/{name}?v={self._versions[name]}"

    async def get(self, request: Request) -> Response:
        """Return a file, cacheable for a year if the query names its current version.

        Raises NotFound.
        """
        name = request.path_params["file"]
        if name not in self._bodies:
            raise errors.NotFound
        # During an update, a page of the new release may reach a process of the old one: its old
        # file must not be cached for a year under the new version.
        is_current = request.query == f"v={self._versions[name]}".encode()
        return self._response(name, FOREVER if is_current else REVALIDATED)

    async def get_icon(self, _request: Request) -> Response:
        """Return the icon of the site."""
        return self._response(ICON, REVALIDATED, SHOWN_ELSEWHERE)

    def _response(
        self, name: str, caching: Header, guards: tuple[Header, ...] = FILE_GUARDS
    ) -> Response:
        content_type = (b"content-type", CONTENT_TYPES[name.rpartition(".")[2]])
        return Response(
            200,
            self._bodies[name],
            (content_type, caching, *guards),
            etag=self._etags[name],
            gzipped=self._gzipped[name],
        )


@cache
def static_files() -> StaticFiles:
    """Return the static files, which are read and compressed once per process."""
    return StaticFiles()


TOO_FAST: Final = "Your address has sent too many requests."


class FailureText(NamedTuple):
    """A status and its text; if *text* is empty, the error's message is shown."""

    status: int
    title: str
    text: str


FAILURES: Final[dict[type[Exception], FailureText]] = {
    errors.BadRequest: FailureText(400, "This request cannot be read", ""),
    OriginRefused: FailureText(403, "That form was refused", ""),
    FormOfAnotherSession: FailureText(403, "That form was refused", ""),
    errors.NotFound: FailureText(
        404, "This page does not exist", "The address may be mistyped, or the page was removed."
    ),
    errors.MethodNotAllowed: FailureText(
        405,
        "This page cannot be used this way",
        "Go back to the previous page, and use its buttons.",
    ),
    errors.PayloadTooLarge: FailureText(413, "The text is too long", ""),
    errors.RateLimited: FailureText(429, "Too many requests", TOO_FAST),
    TooManyAttempts: FailureText(429, "Too many attempts", TOO_FAST),
    errors.ServiceUnavailable: FailureText(
        503, "The service is not available right now", "Nothing was changed. Try again in a moment."
    ),
    errors.InternalError: FailureText(
        500,
        "Something went wrong on our side",
        "It has been logged. If you report the error, include the request id.",
    ),
}


WAITS: Final = (errors.RateLimited, TooManyAttempts)


def failure_page(error: Exception, *, request_id: str, again: str = "") -> Page:
    """Return the page about *error*; for a bug it shows only the request ID.

    again   URL of the page that contains the refused form, for a link; "" for none
    """
    failure = FAILURES.get(type(error), FAILURES[errors.InternalError])
    return Page(
        "failure.html",
        {
            "title": failure.title,
            "text": failure.text or sentence(error),
            "status": failure.status,
            "request_id": request_id,
            "again": again,
            "wait_s": error.retry_after_s if isinstance(error, WAITS) else None,
        },
        status=failure.status,
    )


def failure_headers(error: Exception) -> tuple[Header, ...]:
    """Return the headers that *error* adds to its response: Allow, Retry-After, or none."""
    if isinstance(error, errors.MethodNotAllowed):
        return ((b"allow", error.allowed.encode()),)
    if isinstance(error, WAITS):
        return ((b"retry-after", b"%d" % error.retry_after_s),)
    return ()
