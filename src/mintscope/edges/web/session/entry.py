"""Signing up, signing in, proving to be the same person again, signing out."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from mintscope.base.errors import ServiceUnavailable
from mintscope.core.accounts.email_address import EmailAddress, UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword, WrongPassword, expect_password
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.people.person import EmailTaken
from mintscope.core.accounts.people.session import SecondFactorDue, SessionEnded
from mintscope.edges.web.factors.sign_in import SecondStepPages
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import END_SESSION, Page, PageResponse, Redirect
from mintscope.edges.web.routes import START, Access, PageRequest, PageRoute, get, post

TAKEN: Final = (
    "There is an account with this address already. Sign in, or set a new password if you"
    " forgot yours."
)
NO_PASSWORD: Final = "Enter your password."  # noqa: S105  not a password
NOT_TOLD_APART: Final = "The e-mail address or the password is wrong."


class EntryPages:
    """How a session begins and ends."""

    def __init__(self, people: People, second_step: SecondStepPages, *, may_sign_up: bool) -> None:
        self._people = people
        self._second_step = second_step
        self._may_sign_up = may_sign_up

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        if self._may_sign_up:
            yield get("/sign-up", partial(self._ask, "sign_up.html"))
            yield post("/sign-up", self.sign_up)
        yield get("/sign-in", partial(self._ask, "sign_in.html"))
        yield post("/sign-in", self.sign_in)
        yield post("/sign-out", self.sign_out, Access.SIGNED_IN)
        yield get("/prove", self.ask_prove, Access.SIGNED_IN)
        yield post("/prove", self.prove, Access.SIGNED_IN)

    async def _ask(self, template: str, request: PageRequest) -> PageResponse:
        """Show a form to strangers."""
        if request.session:
            return Redirect(request.next_path)
        return Page(template, {"after": request.next_path})

    async def sign_up(self, request: PageRequest) -> PageResponse:
        """Make the account, and go on in a session of it."""
        address = request.form.line("email")
        password = request.form.text("password")
        errors: dict[str, str] = {}
        email = _email(address, errors)
        try:
            expect_password(password, email=email)
            if not errors:
                cookie = await self._people.sign_up(email, password, request.browser)
                return await self._welcome(request, cookie)
        except WeakPassword as flaw:
            errors["password"] = sentence(flaw)
        except EmailTaken:
            errors["email"] = TAKEN
        return _again("sign_up.html", request, address, errors)

    async def _welcome(self, request: PageRequest, cookie: str) -> PageResponse:
        """Ask for the mailbox to be verified; the account is there, with or without that."""
        await self._leave(request)
        with suppress(ServiceUnavailable, SessionEnded):
            session = await self._people.session(cookie)
            if session is not None:
                await self._people.request_verification(session)
        return Redirect(request.next_path, notice="signed-up", cookie=cookie)

    async def sign_in(self, request: PageRequest) -> PageResponse:
        """Go on in a new session: never in one whose cookie the browser had before."""
        address = request.form.line("email")
        password = request.form.text("password")
        errors: dict[str, str] = {}
        email = _email(address, errors)
        if not password:
            errors["password"] = NO_PASSWORD
        try:
            if not errors:
                cookie = await self._people.sign_in(email, password, request.browser)
                await self._leave(request)
                return Redirect(request.next_path, cookie=cookie)
        except WrongPassword:
            errors[""] = NOT_TOLD_APART
        except SecondFactorDue as due:
            await self._leave(request)
            return await self._second_step.ask(request, due.ticket)
        return _again("sign_in.html", request, address, errors)

    async def _leave(self, request: PageRequest) -> None:
        """End the session that a new one replaces; it ends by itself if that cannot be done now."""
        if request.session is not None:
            with suppress(ServiceUnavailable):
                await self._people.sign_out(request.session)

    async def sign_out(self, request: PageRequest) -> PageResponse:
        """End the session here and in the browser."""
        await self._people.sign_out(request.signed_in)
        return Redirect(START, notice="signed-out", cookie=END_SESSION)

    async def ask_prove(self, request: PageRequest) -> PageResponse:
        """Ask for the password, unless it was entered a short time ago."""
        if request.signed_in.is_fresh(request.now):
            return Redirect(request.next_path)
        return Page("prove.html", {"after": request.next_path})

    async def prove(self, request: PageRequest) -> PageResponse:
        """Note that it was entered, and go back to what needed it."""
        try:
            await self._people.prove(request.signed_in, request.form.text("password"))
        except WrongPassword:
            errors = {"password": "That is not your password."}
            return Page("prove.html", {"after": request.next_path}, errors=errors)
        return Redirect(request.next_path)


def _email(address: str, errors: dict[str, str]) -> EmailAddress:
    try:
        return parse_email(address)
    except UnusableEmailAddress as flaw:
        errors["email"] = sentence(flaw)
        return EmailAddress("")


def _again(template: str, request: PageRequest, address: str, errors: dict[str, str]) -> Page:
    facts = {"after": request.next_path}
    return Page(template, facts, errors=errors, values={"email": address})
