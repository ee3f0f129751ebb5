"""The pages that links in e-mails lead to: a page changes nothing, its buttons do."""

from collections.abc import Iterable
from typing import Final

from mintscope.base.errors import BadRequest
from mintscope.core.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.core.accounts.people.password import WeakPassword
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.server.constant_time import evenly
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import END_SESSION, Page, PageResponse, Redirect, link_gone
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post, shows
from mintscope.edges.web.session.address import told

RESET_LEAST_S: Final = 0.05  # a durable commit takes a tenth of it


class LinkPages:
    """Confirming an application, setting a new password, verifying a mailbox, claiming an agent."""

    def __init__(self, people: People, signup: Signups) -> None:
        self._people = people
        self._signup = signup

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        signed_in = Access.SIGNED_IN
        fresh = Access.FRESH
        confirm = "/confirm/{link}"
        verify = "/verify/{link}"
        claim = "/claim/{link}"
        yield get(confirm, self.ask_confirm)
        yield post(confirm, self.confirm)
        yield get("/confirmed", shows(Page("confirmed.html")))
        yield get("/disowned", shows(Page("disowned.html")))
        yield get("/forgot", self.ask_address)
        yield post("/forgot", self.send_link)
        yield get("/reset/{link}", self.ask_password)
        yield post("/reset/{link}", self.reset)
        yield get(verify, self.ask_verify, signed_in)
        yield post(verify, self.verify, signed_in)
        yield get(claim, shows(Page("claim.html")), fresh)
        yield post(claim, self.claim, fresh)

    async def ask_confirm(self, request: PageRequest) -> PageResponse:
        """Ask the reader of the mailbox whether the application is theirs."""
        email = await self._signup.find_by_link(request.path_params["link"])
        return link_gone("confirm") if email is None else Page("confirm.html", {"email": email})

    async def confirm(self, request: PageRequest) -> PageResponse:
        """Confirm the application, or delete it where the reader never made it."""
        link = request.path_params["link"]
        answer = request.form.text("answer")
        if answer == "mine":
            is_done = await self._signup.confirm_by_link(link)
            return Redirect("/confirmed") if is_done else link_gone("confirm")
        if answer == "not-mine":
            is_done = await self._signup.disown(link)
            return Redirect("/disowned") if is_done else link_gone("confirm")
        raise BadRequest("expected the answer mine or not-mine")

    async def ask_verify(self, request: PageRequest) -> PageResponse:
        """Offer the button."""
        if request.signed_in.user.verified_at is not None:
            return Redirect("/settings/account", notice="verified")
        return Page("verify.html")

    async def verify(self, request: PageRequest) -> PageResponse:
        """Verify the mailbox of the person signed in, if the link was sent to that account."""
        is_done = await self._people.verify(request.signed_in, request.path_params["link"])
        if not is_done:
            return link_gone("verify")
        return Redirect("/settings/account", notice="verified")

    async def claim(self, request: PageRequest) -> PageResponse:
        """Move the agent's keys to the person signed in."""
        agent = await self._people.claim(request.signed_in, request.path_params["link"])
        if agent is None:
            return link_gone("claim")
        return Redirect("/settings/api-keys", notice="claimed")

    async def ask_address(self, request: PageRequest) -> PageResponse:
        """Ask whose password it is."""
        values = {"email": request.session.user.email} if request.session else {}
        return Page("forgot.html", values=values)

    async def send_link(self, request: PageRequest) -> PageResponse:
        """Write to the mailbox; the answer is the same whether there is an account."""
        address = request.form.line("email")
        try:
            email = parse_email(address)
        except UnusableEmailAddress as flaw:
            errors = {"email": sentence(flaw)}
            return Page("forgot.html", errors=errors, values={"email": address})
        await evenly(self._people.request_reset(email, request.browser), least_s=RESET_LEAST_S)
        return Redirect("/forgot", notice="reset-sent")

    async def ask_password(self, request: PageRequest) -> PageResponse:
        """Ask for the new password; looking at the page does not use the link up."""
        email = await self._people.find_reset(request.path_params["link"])
        return link_gone("reset") if email is None else Page("reset.html", {"email": email})

    async def reset(self, request: PageRequest) -> PageResponse:
        """Set the password; every session ends, this one too."""
        link = request.path_params["link"]
        is_taken = bool(request.form.text("taken"))
        email = await self._people.find_reset(link)
        password = request.form.text("password")
        try:
            ended = await self._people.reset(link, password, is_taken=is_taken)
        except WeakPassword as flaw:
            errors = {"password": sentence(flaw)}
            values = {"taken": "yes"} if is_taken else {}
            return Page("reset.html", {"email": email}, errors=errors, values=values)
        if ended is None:
            return link_gone("reset")
        if is_taken:
            facts = {"email": email, "ended": told(ended), "reset": ""}
            return Page("account/taken_back.html", facts, cookie=END_SESSION)
        return Redirect("/sign-in", notice="password-reset", cookie=END_SESSION)
