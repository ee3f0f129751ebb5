"""PageContext a new password with a link sent to the mailbox."""

from collections.abc import Iterable

from mintscope.core.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword
from mintscope.core.accounts.people.people import People
from mintscope.edges.web.forms.form import sentence
from mintscope.edges.web.forms.request import PageRequest
from mintscope.edges.web.pages.page import (
    END_SESSION,
    UNPROCESSABLE,
    Page,
    PageResponse,
    Redirect,
    link_gone,
)
from mintscope.edges.web.routes import PageRoute, get, post


class RecoveryPages:
    """For people who cannot sign in."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get("/forgot", self.ask_address)
        yield post("/forgot", self.send_link)
        yield get("/reset/{link}", self.ask_password)
        yield post("/reset/{link}", self.reset)

    async def ask_address(self, request: PageRequest) -> PageResponse:
        """Ask whose password it is."""
        values = {"email": request.session.user.email} if request.session else {}
        return Page("forgot.html", values=values)

    async def send_link(self, request: PageRequest) -> PageResponse:
        """Write to the mailbox; the answer is the same whether it is anybody's."""
        address = request.form.line("email")
        try:
            email = parse_email(address)
        except UnusableEmailAddress as flaw:
            errors = {"email": sentence(flaw)}
            return Page(
                "forgot.html", errors=errors, values={"email": address}, status=UNPROCESSABLE
            )
        await self._people.request_reset(email, request.browser)
        return Redirect("/forgot", notice="reset-sent")

    async def ask_password(self, request: PageRequest) -> PageResponse:
        """Ask for the new password; looking at the page does not use the link up."""
        email = await self._people.find_reset(request.path_params["link"])
        return link_gone("reset") if email is None else Page("reset.html", {"email": email})

    async def reset(self, request: PageRequest) -> PageResponse:
        """Set the password; every session ends, this one too."""
        link = request.path_params["link"]
        try:
            is_done = await self._people.reset(link, request.form.text("password"))
        except WeakPassword as flaw:
            email = await self._people.find_reset(link)
            errors = {"password": sentence(flaw)}
            return Page("reset.html", {"email": email}, errors=errors, status=UNPROCESSABLE)
        if not is_done:
            return link_gone("reset")
        return Redirect("/sign-in", notice="password-reset", cookie=END_SESSION)
