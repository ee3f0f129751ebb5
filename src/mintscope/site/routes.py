"""Routes of pages, forms, and the mailbox of a demo."""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl

from mintscope.accounts.mail.email import Email, EmailId
from mintscope.accounts.session import Browser, Session
from mintscope.kit.errors import BadRequest, InvalidTokenAddress, NotFound
from mintscope.kit.http.request import Request, parse_id
from mintscope.kit.primitives import Mint, UnixMs, parse_mint
from mintscope.site.page import NoContent, Page, PageResponse, PlainText

FIELDS_MAX: Final = 50
MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


class InvalidForm(Exception):
    """Fields with invalid values; the error of each, for users."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {error}" for field, error in errors.items()))
        self.errors = errors


class FormData:
    """The fields of a form, in the order they were sent."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs

    def text(self, name: str) -> str:
        """Return the field *name*, "" if it was not sent.

        Raises    BadRequest for a field that was sent twice, because its value would be ambiguous
        """
        values = self.texts(name)
        if len(values) > 1:
            raise BadRequest(f"expected one field {name}; were {len(values)}")
        return values[0] if values else ""

    def texts(self, name: str) -> list[str]:
        """Return every value of the field *name*, as ticked boxes send them."""
        return [value for other, value in self._pairs if other == name]

    def line(self, name: str) -> str:
        """Return the field *name* without surrounding white space; raises as `text` does."""
        return self.text(name).strip()


async def read_form(request: Request) -> FormData:
    """Return the form in the body of *request*.

    Raises    BadRequest, PayloadTooLarge, ClientDisconnected
    """
    content_type = request.value(b"content-type")
    if content_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise BadRequest(f"expected a form, {MEDIA_TYPE}; was {content_type[:80]!r}")
    return parse_form(await request.body())


def parse_form(body: bytes) -> FormData:
    """Return the fields of *body*.

    Raises    BadRequest if it is no form of UTF-8 texts, or has too many fields
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise BadRequest(f"expected at most {FIELDS_MAX} fields, in UTF-8") from None
    if any("\0" in text for pair in pairs for text in pair):
        raise BadRequest("expected texts without NUL characters")
    return FormData(pairs)


def parse_place(text: str) -> int | None:
    """Return the place where a list continues; "" is its start.  Raises as `parse_id` does."""
    return parse_id(text) if text else None


def sentence(text: object) -> str:
    """Return *text* as a sentence, capitalized and with a full stop."""
    plain = str(text)
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith((".", "!", "?")) else ".")


class OriginRefused(Exception):
    """The request was not made by a page of this site; the message is shown."""


class FormOfAnotherSession(OriginRefused):
    """The form has no CSRF text of this session; its page has to be opened again."""


class OwnOrigins:
    """The origins of the pages; the Host header is never used as one."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        assert self._origins

    @property
    def are_secure(self) -> bool:
        """Whether all origins use https."""
        return all(origin.startswith("https://") for origin in self._origins)

    def expect(self, origins: list[str]) -> None:
        """Raise OriginRefused unless *origins*, the Origin headers, is one of these origins."""
        if len(origins) != 1 or origins[0] not in self._origins:
            shown = ", ".join(origins)[:120] or "nothing"
            known = " or ".join(sorted(self._origins))
            raise OriginRefused(
                f"Forms are accepted from {known} only; this one came from {shown}."
                " Open that address and try again."
            )


def expect_csrf(session: Session, form: FormData) -> None:
    """Raise FormOfAnotherSession unless *form* carries the CSRF text of *session*."""
    if not hmac.compare_digest(session.csrf.encode(), form.text("csrf").encode()):
        raise FormOfAnotherSession(
            "This form belongs to another session, or to none."
            " Open its page again and send the form from there."
        )


# Nothing that needs quoting in an address, and no dot segment: browsers take those for steps.
SEGMENT: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,128}"

START: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A page request that has passed every check.

    path_params   the texts of the variable segments of the path, by name
    query_params  the fields after the question mark
    form          the fields of a POST
    session       None without one
    browser       where it comes from
    bearer        the credential of the Authorization header, which only the purchase of a top-up
                  sends to pages; "" without
    visit         names a browser without a session in the question for a passkey; "": no cookie
    next_path     the page of this site to go to when done: from `next`, never another site's
    """

    now: UnixMs
    browser: Browser
    session: Session | None = None
    path_params: Mapping[str, str] = field(default_factory=dict)
    query_params: FormData = field(default_factory=FormData)
    form: FormData = field(default_factory=FormData)
    next_path: str = START
    bearer: str = ""
    visit: str = ""

    @property
    def signed_in(self) -> Session:
        """The session, on routes that need one."""
        assert self.session is not None
        return self.session

    @property
    def mint(self) -> Mint:
        """The mint in the path.  Raises NotFound for other text."""
        try:
            return parse_mint(self.path_params["mint"])
        except InvalidTokenAddress:
            raise NotFound from None


PageHandler = Callable[[PageRequest], Awaitable[PageResponse]]


class Access(IntEnum):
    """The users who may reach a handler; each level includes those before it.

    ANYONE         forms are checked by their origin alone
    SIGNED_IN      a session; forms carry its `csrf`. Others are sent to sign in
    FRESH          and the password was entered in the last ten minutes, else it is requested
    """

    ANYONE = 0
    SIGNED_IN = 1
    FRESH = 2


# Routes that prove, buy, or end something: a thief who uses up the budget must not keep the owner
# from ending sessions, keys and factors, whose creation was counted.
NOT_COUNTED: Final = (
    *("/sign-out", "/prove", "/prove/passkey", "/view", "/backtest"),
    *("/delete", "/end", "/end-others", "/remove", "/revoke"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """A page, or a form that is posted to it.

    path              as in `kit.http.routes.Route`
    is_from_anywhere  the request is the one click of a mail program: it comes from no page of ours,
                      its proof is in the path, and its body is not read
    refilled          the fields that its page fills in from its query: they are kept if the sender
                      has to sign in first.  An address is no place for secrets
    keeps             the fields that are kept likewise, but only for the same user
    keeps_on          the page of the form, if it is not at *path*
    """

    method: Literal["GET", "POST"]
    path: str
    handler: PageHandler
    access: Access = Access.ANYONE
    is_from_anywhere: bool = False
    refilled: Sequence[str] = ()
    keeps: Sequence[str] = ()
    keeps_on: str = ""

    @property
    def is_administration(self) -> bool:
        """Whether the page is only for administrators; for others it is 404."""
        return self.path.startswith("/admin")

    @property
    def is_counted(self) -> bool:
        """Whether its form counts as a write of the account; ending, proving and buying do not."""
        is_own = self.access is not Access.ANYONE and not self.is_administration
        return is_own and not self.path.endswith(NOT_COUNTED)


def get(path: str, handler: PageHandler, access: Access = Access.ANYONE) -> PageRoute:
    """Return the route of a page."""
    return PageRoute(method="GET", path=path, handler=handler, access=access)


def post(  # noqa: PLR0913 - one argument for each part
    path: str,
    handler: PageHandler,
    access: Access = Access.ANYONE,
    *,
    refilled: Sequence[str] = (),
    keeps: Sequence[str] = (),
    keeps_on: str = "",
) -> PageRoute:
    """Return the route of a form."""
    return PageRoute(
        method="POST",
        path=path,
        handler=handler,
        access=access,
        refilled=refilled,
        keeps=keeps,
        keeps_on=keeps_on,
    )


def shows(page: PageResponse) -> PageHandler:
    """Return the handler that returns *page* to every request."""

    async def show(_request: PageRequest) -> PageResponse:
        return page

    return show


class PageGroup(Protocol):
    """A group of pages: one module each."""

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the group."""
        ...


SHOWN_MAX: Final = 100
PLAIN: Final = ".txt"
ADDRESS: Final = re.compile(r"(https?://[^\s<>]+)")


class SentEmail(NamedTuple):
    """An e-mail as it would have been sent."""

    email_id: EmailId
    written_at: UnixMs
    email: Email


class Mailbox(Protocol):
    """A mailbox that can be read."""

    async def recent(self, *, limit: int) -> Sequence[SentEmail]:
        """Return the newest e-mails, newest first."""
        ...


class MailboxPages:
    """E-mails in a list, one at a time, and as plain text for scripts."""

    def __init__(self, mailbox: Mailbox, origins: Sequence[str]) -> None:
        self._mailbox = mailbox
        self._origins = origins

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get("/mailbox", self.list)
        yield get("/mailbox/{email}", self.show)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show e-mails; `to` selects an address, and with `after` only if there is a newer one."""
        wanted = request.query_params.line("to").lower()
        after = request.query_params.line("after")
        sent = await self._mailbox.recent(limit=SHOWN_MAX)
        shown = [each for each in sent if wanted in {"", each.email.recipient}]
        newest = shown[0].email_id if shown else 0
        if after and newest <= parse_id(after):
            return NoContent()
        return Page("mailbox.html", {"emails": shown, "wanted": wanted, "newest": newest})

    async def show(self, request: PageRequest) -> PageResponse:
        """Show one e-mail; with `.txt` after its number, only its text."""
        name = request.path_params["email"]
        number = parse_id(name.removesuffix(PLAIN))
        for each in await self._mailbox.recent(limit=SHOWN_MAX):
            if each.email_id == number:
                if name.endswith(PLAIN):
                    return PlainText(each.email.text)
                return Page("email.html", {"sent": each, "parts": self._parts(each.email.text)})
        raise NotFound

    def _parts(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the pieces of *text*, each with its target, or "" if it is not an own address.

        Without the origin: the browser may know this site by another of its names.
        """
        for piece in ADDRESS.split(text):
            own = [origin for origin in self._origins if piece.startswith(f"{origin}/")]
            yield piece, piece.removeprefix(own[0]) if own else ""
