"""The mailbox of a demo: every e-mail, for everyone; served only where mail is delivered to it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from mintscope.base.errors import NotFound
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.mail.email import Email, EmailId
from mintscope.edges.server.request import parse_id
from mintscope.edges.web.pages.page import NoContent, Page, PageResponse, PlainText
from mintscope.edges.web.routes import PageRequest, PageRoute, get

SHOWN_MAX: Final = 100
PLAIN: Final = ".txt"
ADDRESS: Final = re.compile(r"(https?://[^\s<>]+)")


class SentEmail(NamedTuple):
    """An e-mail as it would have been sent."""

    email_id: EmailId
    written_at: UnixMs
    email: Email


class Mailbox(Protocol):
    """Where e-mails are read."""

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
        """Show what was written; with `to` to that address, with `after` if any is newer."""
        wanted = request.query_params.line("to").lower()
        after = request.query_params.line("after")
        sent = await self._mailbox.recent(limit=SHOWN_MAX)
        shown = [each for each in sent if wanted in {"", each.email.recipient}]
        newest = shown[0].email_id if shown else 0
        if after and newest <= parse_id(after):
            return NoContent()
        return Page("mailbox.html", {"emails": shown, "wanted": wanted, "newest": newest})

    async def show(self, request: PageRequest) -> PageResponse:
        """Show one; with `.txt` behind its number, nothing but its text."""
        name = request.path_params["email"]
        number = parse_id(name.removesuffix(PLAIN))
        for each in await self._mailbox.recent(limit=SHOWN_MAX):
            if each.email_id == number:
                if name.endswith(PLAIN):
                    return PlainText(each.email.text)
                return Page("email.html", {"sent": each, "parts": self._parts(each.email.text)})
        raise NotFound

    def _parts(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield the pieces of *text*, each with where it leads; "" for what is no address of ours.

        Without the origin: the browser may know this site by another of its names.
        """
        for piece in ADDRESS.split(text):
            own = [origin for origin in self._origins if piece.startswith(f"{origin}/")]
            yield piece, piece.removeprefix(own[0]) if own else ""
