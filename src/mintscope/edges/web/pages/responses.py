"""Pages as responses, with the headers that guard all of them."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from mintscope.edges.server.response import NO_STORE, Header, Response
from mintscope.edges.web.pages.page import (
    COOKIE,
    END_SESSION,
    NoContent,
    Page,
    PageResponse,
    PlainText,
    Redirect,
)
from mintscope.edges.web.pages.render import PageContext, Renderer

HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")
PLAIN: Final[Header] = (b"content-type", b"text/plain; charset=utf-8")
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
class PageWriter:
    """Turns what handlers return into responses.

    is_secure   every address of the site is https
    """

    renderer: Renderer
    is_secure: bool

    def write(
        self,
        page: PageResponse,
        context: PageContext,
        *,
        headers: tuple[Header, ...] = (),
        is_htmx: bool = False,
    ) -> Response:
        """Return the response that is *page*, with *headers*.

        is_htmx   a script asked for it. It follows a redirect unseen, so it is told to go to a page
                  that is no part of this one; and what went wrong replaces all of what is there
        """
        match page:
            case Page():
                body = self.renderer.render(page, context).encode()
                wrong = HTTPStatus.UNPROCESSABLE_ENTITY if page.errors else HTTPStatus.OK
                response = Response(page.status or wrong, body, (HTML,))
                if is_htmx and response.status >= HTTPStatus.BAD_REQUEST:
                    headers += WHOLE_MAIN
            case PlainText():
                response = Response(HTTPStatus.OK, page.text.encode(), (PLAIN,))
            case Redirect():
                leaves = is_htmx and page.path.startswith(("/sign-in", "/prove"))
                status = HTTPStatus.NO_CONTENT if leaves else HTTPStatus.SEE_OTHER
                name = b"hx-redirect" if leaves else b"location"
                response = Response(status, b"", (PLAIN, (name, _location(page).encode())))
            case NoContent():
                response = Response(HTTPStatus.NO_CONTENT, b"", (PLAIN,))
        response.headers += (NO_STORE, *headers, *GUARDS)
        if self.is_secure:
            response.headers += (SECURE_GUARD,)
        if isinstance(page, Page | Redirect) and page.cookie is not None:
            response.headers += ((b"set-cookie", _cookie(page.cookie).encode()),)
        return response


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
