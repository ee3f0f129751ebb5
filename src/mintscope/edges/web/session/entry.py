"""Signing up, signing in, signing out."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from mintscope.base.errors import ServiceUnavailable
from mintscope.core.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword, expect_password
from mintscope.core.accounts.people.people import EmailTaken, People, WrongPassword
from mintscope.core.accounts.people.session import SessionEnded
from mintscope.edges.web.forms.visit import START, Visit
from mintscope.edges.web.forms.words import sentence
from mintscope.edges.web.pages.reply import END_SESSION, UNMET, Goto, Page, Reply
from mintscope.edges.web.routes import Access, Route

TAKEN: Final = (
    "There is an account with this address already. Sign in, or set a new password if you"
    " forgot yours."
)
NO_PASSWORD: Final = "Enter your password."  # noqa: S105  not a password
NOT_TOLD_APART: Final = "The e-mail address or the password is wrong."


class EntryPages:
    """How a session begins and ends."""

    def __init__(self, people: People, *, may_sign_up: bool) -> None:
        self._people = people
        self._may_sign_up = may_sign_up

    def routes(self) -> Iterable[Route]:
        """Return the rows of this group."""
        if self._may_sign_up:
            yield Route(method="GET", path="/sign-up", handler=self.ask_sign_up)
            yield Route(method="POST", path="/sign-up", handler=self.sign_up)
        yield Route(method="GET", path="/sign-in", handler=self.ask_sign_in)
        yield Route(method="POST", path="/sign-in", handler=self.sign_in)
        yield Route(method="POST", path="/sign-out", handler=self.sign_out, access=Access.SIGNED_IN)

    async def ask_sign_up(self, visit: Visit) -> Reply:
        """Show the form to strangers."""
        return Goto(visit.after) if visit.session else Page("sign_up.html", {"after": visit.after})

    async def sign_up(self, visit: Visit) -> Reply:
        """Make the account, and go on in a session of it."""
        address, password = visit.form.line("email"), visit.form.text("password")
        errors: dict[str, str] = {}
        email = _email(address, errors)
        try:
            expect_password(password, email=email)
            if not errors:
                cookie = await self._people.sign_up(email, password, visit.browser)
                return await self._welcome(visit, cookie)
        except WeakPassword as flaw:
            errors["password"] = sentence(flaw)
        except EmailTaken:
            errors["email"] = TAKEN
        return _again("sign_up.html", visit, address, errors)

    async def _welcome(self, visit: Visit, cookie: str) -> Reply:
        """Ask for the mailbox to be verified; the account is there, with or without that."""
        await self._leave(visit)
        with suppress(ServiceUnavailable, SessionEnded):
            session = await self._people.session(cookie)
            if session is not None:
                await self._people.request_verification(session)
        return Goto(visit.after, notice="signed-up", cookie=cookie)

    async def ask_sign_in(self, visit: Visit) -> Reply:
        """Show the form to strangers."""
        return Goto(visit.after) if visit.session else Page("sign_in.html", {"after": visit.after})

    async def sign_in(self, visit: Visit) -> Reply:
        """Go on in a new session: never in one whose cookie the browser had before."""
        address, password = visit.form.line("email"), visit.form.text("password")
        errors: dict[str, str] = {}
        email = _email(address, errors)
        if not password:
            errors["password"] = NO_PASSWORD
        try:
            if not errors:
                cookie = await self._people.sign_in(email, password, visit.browser)
                await self._leave(visit)
                return Goto(visit.after, cookie=cookie)
        except WrongPassword:
            errors[""] = NOT_TOLD_APART
        return _again("sign_in.html", visit, address, errors)

    async def _leave(self, visit: Visit) -> None:
        """End the session that a new one replaces; it ends by itself if that cannot be done now."""
        if visit.session is not None:
            with suppress(ServiceUnavailable):
                await self._people.sign_out(visit.session)

    async def sign_out(self, visit: Visit) -> Reply:
        """End the session here and in the browser."""
        await self._people.sign_out(visit.signed_in)
        return Goto(START, notice="signed-out", cookie=END_SESSION)


def _email(address: str, errors: dict[str, str]) -> EmailAddress:
    try:
        return parse_email(address)
    except UnusableEmailAddress as flaw:
        errors["email"] = sentence(flaw)
        return EmailAddress("")


def _again(template: str, visit: Visit, address: str, errors: dict[str, str]) -> Page:
    facts = {"after": visit.after}
    return Page(template, facts, errors=errors, values={"email": address}, status=UNMET)
