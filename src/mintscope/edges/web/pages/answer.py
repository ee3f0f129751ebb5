"""Answers as they are sent: pages in words, redirects, and the headers that guard all of them."""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.types import Send

from mintscope.base.time import DAY_S
from mintscope.edges.web.pages.render import Renderer, Setting
from mintscope.edges.web.pages.reply import COOKIE, END_SESSION, Goto, Nothing, Page, Reply, Text

HTML: Final = "text/html; charset=utf-8"
PLAIN: Final = "text/plain; charset=utf-8"
NO_STORE: Final = "no-store"
YEAR_S: Final = 365 * DAY_S
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
GUARDS: Final = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    # Not no-referrer: with it browsers send forms with `Origin: null`, even to their own site.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=()"),
)
SECURE_GUARD: Final = ("strict-transport-security", f"max-age={YEAR_S}")
COOKIE_FORM: Final = "Path=/; Secure; HttpOnly; SameSite=Lax"


@dataclass(slots=True, kw_only=True)
class Answer:
    """Status, headers and body."""

    status: int
    body: bytes
    content_type: str
    cache_control: str = NO_STORE
    headers: list[tuple[str, str]] = field(default_factory=list)

    def for_htmx(self, reply: Reply) -> None:
        """Make it one that a script may have asked for: what is no part of a page is all of it.

        A script follows a redirect unseen, so it is told in words to go to another page; and what
        went wrong replaces the whole of what is there.
        """
        if isinstance(reply, Goto) and reply.path.startswith(("/sign-in", "/prove")):
            location = dict(self.headers)["location"]
            self.status = HTTPStatus.NO_CONTENT
            self.headers = [pair for pair in self.headers if pair[0] != "location"]
            self.headers.append(("hx-redirect", location))
        elif self.status >= HTTPStatus.BAD_REQUEST:
            self.headers += [
                ("hx-retarget", "main"),
                ("hx-reselect", "main"),
                ("hx-reswap", "outerHTML"),
            ]

    async def send(self, send: Send, *, request_id: str, is_head: bool) -> None:
        """Send it; to HEAD, everything but the body."""
        headers = [
            ("content-type", self.content_type),
            ("cache-control", self.cache_control),
            ("x-request-id", request_id),
            *self.headers,
        ]
        if self.status != HTTPStatus.NO_CONTENT:
            headers.append(("content-length", str(len(self.body))))
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": self.status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if is_head else self.body})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """Turns replies into answers."""

    renderer: Renderer
    is_secure: bool

    def answer(self, reply: Reply, setting: Setting) -> Answer:
        """Return *reply* as it is sent."""
        match reply:
            case Page():
                text = self.renderer.render(reply, setting)
                answer = Answer(status=reply.status, body=text.encode(), content_type=HTML)
            case Text():
                answer = Answer(status=200, body=reply.text.encode(), content_type=PLAIN)
            case Goto():
                answer = Answer(status=HTTPStatus.SEE_OTHER, body=b"", content_type=PLAIN)
                answer.headers.append(("location", _location(reply)))
            case Nothing():
                answer = Answer(status=HTTPStatus.NO_CONTENT, body=b"", content_type=PLAIN)
        answer.headers += GUARDS
        if self.is_secure:
            answer.headers.append(SECURE_GUARD)
        if isinstance(reply, Page | Goto) and reply.cookie is not None:
            answer.headers.append(("set-cookie", _cookie(reply.cookie)))
        return answer


def _location(goto: Goto) -> str:
    """Return an address on this very site: it begins with one slash."""
    assert goto.path.startswith("/")
    assert not goto.path.startswith(("//", "/\\"))
    if not goto.notice:
        return goto.path
    mark = "&" if "?" in goto.path else "?"
    return f"{goto.path}{mark}{urlencode({'notice': goto.notice})}"


def _cookie(value: str) -> str:
    """Return the header: a session's ends with the browser; the server ends it before."""
    if value == END_SESSION:
        return f"{COOKIE}=; {COOKIE_FORM}; Max-Age=0"
    return f"{COOKIE}={value}; {COOKIE_FORM}"
