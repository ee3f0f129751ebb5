"""Routes of pages, form parsing, and the mailbox of a demo."""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol
from urllib.parse import parse_qsl

from mintscope.accounts.mail.email import Email, EmailId
from mintscope.accounts.session import Browser, Session
from mintscope.kit.audit import UserId
from mintscope.kit.errors import BadRequest, InvalidTokenAddress, NotFound
from mintscope.kit.http.request import Request, parse_id
from mintscope.kit.primitives import Mint, UnixMs, parse_mint
from mintscope.site.page import NoContent, Page, PageResponse, PlainText

FIELDS_MAX: Final = 50
MEDIA_TYPE: Final = "application/x-www-form-urlencoded"


class InvalidForm(Exception):
    """A form has invalid fields; *errors* has a message for users by field."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {error}" for field, error in errors.items()))
        self.errors = errors


class FormData:
    """The fields of a form, in the order in which they were sent."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs

    def text(self, name: str) -> str:
        """Return the field *name*, or "" if it was not sent.

        Raises    BadRequest if the field was sent more than once, because its value is ambiguous
        """
        values = self.texts(name)
        if len(values) > 1:
            raise BadRequest(f"expected one field {name}; were {len(values)}")
        return values[0] if values else ""

    def texts(self, name: str) -> list[str]:
        """Return all values of the field *name*, such as those of checked boxes."""
        return [value for other, value in self._pairs if other == name]

    def line(self, name: str) -> str:
        """Return the field *name* without surrounding white space, or "" if it was not sent.

        Raises    BadRequest if the field was sent more than once
        """
        return self.text(name).strip()


async def read_form(request: Request) -> FormData:
    """Return the form in the body.  Raises BadRequest, PayloadTooLarge, ClientDisconnected."""
    content_type = request.value(b"content-type")
    if content_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise BadRequest(f"expected a form, {MEDIA_TYPE}; was {content_type[:80]!r}")
    return parse_form(await request.body())


def parse_form(body: bytes) -> FormData:
    """Return the fields of *body*.

    Raises    BadRequest if *body* is not a UTF-8 form, or has NUL characters or too many fields
    """
    try:
        pairs = parse_qsl(
            # Browsers percent-encode all characters that are not ASCII.
            body.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:  # includes UnicodeDecodeError
        raise BadRequest(f"expected at most {FIELDS_MAX} fields, in UTF-8") from None
    # PostgreSQL cannot store NUL characters.
    if any("\0" in text for pair in pairs for text in pair):
        raise BadRequest("expected texts without NUL characters")
    return FormData(pairs)


def parse_place(text: str) -> int | None:
    """Return the ID at which a list continues, or None for "".  Raises NotFound if it is no ID."""
    return parse_id(text) if text else None


def sentence(text: object) -> str:
    """Return *text* as a sentence: capitalized, with a full stop if no punctuation ends it."""
    plain = str(text)
    return plain[:1].upper() + plain[1:] + ("" if plain.endswith((".", "!", "?")) else ".")


class OriginRefused(Exception):
    """The request does not come from a page of this site; the message is for users."""


class FormOfAnotherSession(OriginRefused):
    """The form has no CSRF token of this session; the user has to open its page again."""


class OwnOrigins:
    """The origins of this site's pages; the Host header is never used as an origin."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        assert self._origins

    @property
    def are_secure(self) -> bool:
        """Whether all origins use https."""
        return all(origin.startswith("https://") for origin in self._origins)

    def expect(self, origins: list[str]) -> None:
        """Raise OriginRefused unless *origins*, the Origin headers, is a single known origin."""
        if len(origins) != 1 or origins[0] not in self._origins:
            shown = ", ".join(origins)[:120] or "nothing"
            known = " or ".join(sorted(self._origins))
            raise OriginRefused(
                f"Forms are accepted from {known} only; this one came from {shown}."
                " Open that address and try again."
            )


def expect_csrf(session: Session, form: FormData) -> None:
    """Raise FormOfAnotherSession unless *form* has the CSRF token of *session*."""
    # Encoded, because compare_digest raises TypeError for a text that is not ASCII.
    if not hmac.compare_digest(session.csrf.encode(), form.text("csrf").encode()):
        raise FormOfAnotherSession(
            "This form belongs to another session, or to none."
            " Open its page again and send the form from there."
        )


# Excludes characters that need quoting in an address, and dot segments, which browsers resolve.
SEGMENT: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,128}"

START: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A page request that has passed every check.

    browser    IP address and User-Agent of the client
    session    None if the visitor is not signed in
    form       fields of a POST
    next_path  page of this site to open next, from the field `next`
    bearer     credential of the Authorization header, which only top-ups use; "" if there is none
    visit      cookie that identifies a browser without a session in a passkey challenge; "" if
               there is none
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
        """The session, on routes that require one."""
        assert self.session is not None
        return self.session

    @property
    def user_id(self) -> UserId:
        """The ID of the signed-in user, on routes that require a session."""
        return self.signed_in.user.user_id

    @property
    def mint(self) -> Mint:
        """The mint in the path.  Raises NotFound if the text is not a mint."""
        try:
            return parse_mint(self.path_params["mint"])
        except InvalidTokenAddress:
            raise NotFound from None


PageHandler = Callable[[PageRequest], Awaitable[PageResponse]]


class Access(IntEnum):
    """The conditions to reach a handler; each level includes those of all earlier levels.

    ANYONE         no session is required; forms are checked only by origin
    SIGNED_IN      a session is required, and forms carry its `csrf`; visitors have to sign in
    FRESH          a password or passkey was used in the last ten minutes; otherwise it is requested
    """

    ANYONE = 0
    SIGNED_IN = 1
    FRESH = 2


# Routes that prove, buy, or end something are not counted: an attacker who uses up the budget
# must not be able to prevent the owner from ending sessions, keys and factors, whose creation
# was counted.
NOT_COUNTED: Final = (
    *("/sign-out", "/prove", "/prove/passkey", "/view", "/backtest"),
    *("/delete", "/end", "/end-others", "/remove", "/revoke"),
)


@dataclass(frozen=True, slots=True)
class PageRoute:
    """The route of a page, or of a form that is posted; `get` and `post` create routes.

    path              path with variables in braces, such as `/token/{mint}`
    is_from_anywhere  for one-click requests of mail programs, which do not come from a page of this
                      site: the proof is in the path, and the body is ignored
    refilled          fields that the page fills in from its query; they are kept if the sender has
                      to sign in first.  They must not be secret, because URLs are not secret
    keeps             fields that are kept in the same way, but only for the same user
    keeps_on          page of the form if it is not at *path*
    """

    method: Literal["GET", "POST"]
    path: str
    handler: PageHandler
    access: Access = Access.ANYONE
    _: KW_ONLY
    is_from_anywhere: bool = False
    refilled: Sequence[str] = ()
    keeps: Sequence[str] = ()
    keeps_on: str = ""

    @property
    def is_administration(self) -> bool:
        """Whether only administrators may open the page; other users get a 404."""
        return self.path.startswith("/admin")

    @property
    def is_counted(self) -> bool:
        """Whether the form counts as a write of the account.

        Forms open to anyone, forms for administrators, and routes in NOT_COUNTED do not count.
        """
        is_own = self.access is not Access.ANYONE and not self.is_administration
        return is_own and not self.path.endswith(NOT_COUNTED)


get = partial(PageRoute, "GET")
post = partial(PageRoute, "POST")


def shows(page: PageResponse) -> PageHandler:
    """Return a handler that returns *page* for every request."""

    async def show(_request: PageRequest) -> PageResponse:
        return page

    return show


class PageGroup(Protocol):
    """Pages that belong together, such as those of alerts."""

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages, each with its path and handler."""
        ...


SHOWN_MAX: Final = 100
PLAIN: Final = ".txt"
ADDRESS: Final = re.compile(r"(https?://[^\s<>]+)")


class SentEmail(NamedTuple):
    """An e-mail that a demo shows on a page, because a demo sends none."""

    email_id: EmailId
    written_at: UnixMs
    email: Email


class Mailbox(Protocol):
    """The source of the e-mails that a demo shows."""

    async def recent(self, *, limit: int) -> Sequence[SentEmail]:
        """Return up to *limit* e-mails, newest first."""
        ...


class MailboxPages:
    """Pages for the list of e-mails and for each e-mail, which scripts can read as plain text."""

    def __init__(self, mailbox: Mailbox, origins: Sequence[str]) -> None:
        self._mailbox = mailbox
        self._origins = origins

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the pages of a demo's mailbox."""
        yield get("/mailbox", self.list)
        yield get("/mailbox/{email}", self.show)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show the newest e-mails, only those to the e-mail address `to` if it is given.

        Return no content if none of them is newer than the e-mail with the ID `after`.
        """
        wanted = request.query_params.line("to").lower()
        after = request.query_params.line("after")
        sent = await self._mailbox.recent(limit=SHOWN_MAX)
        shown = [each for each in sent if wanted in {"", each.email.recipient}]
        newest = shown[0].email_id if shown else 0
        if after and newest <= parse_id(after):
            return NoContent()
        return Page("mailbox.html", {"emails": shown, "wanted": wanted, "newest": newest})

    async def show(self, request: PageRequest) -> PageResponse:
        """Show one e-mail; with `.txt` after its ID, only its text."""
        name = request.path_params["email"]
        number = parse_id(name.removesuffix(PLAIN))
        for each in await self._mailbox.recent(limit=SHOWN_MAX):
            if each.email_id == number:
                if name.endswith(PLAIN):
                    return PlainText(each.email.text)
                return Page("email.html", {"sent": each, "parts": self._parts(each.email.text)})
        raise NotFound

    def _parts(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the pieces of *text* with their link targets; "" for pieces without a target.

        Only URLs of this site have a target.  Targets have no origin, because the browser may use
        another origin of this site.
        """
        for piece in ADDRESS.split(text):
            own = [origin for origin in self._origins if piece.startswith(f"{origin}/")]
            yield piece, piece.removeprefix(own[0]) if own else ""
