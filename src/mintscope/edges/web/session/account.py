"""Settings > Account: the mailbox, the password, agents that can be claimed."""

from collections.abc import Iterable
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.core.accounts.people.password import WeakPassword
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.user import UserId
from mintscope.edges.web.forms.form import sentence
from mintscope.edges.web.forms.request import PageRequest
from mintscope.edges.web.pages.page import UNPROCESSABLE, Page, PageResponse, Redirect
from mintscope.edges.web.pages.paging import parse_id
from mintscope.edges.web.routes import Access, PageRoute, get, post

ACCOUNT: Final = "/settings/account"


class AccountPages:
    """What a person does with the account itself."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        password, signed_in, fresh = f"{ACCOUNT}/password", Access.SIGNED_IN, Access.FRESH
        yield get("/settings", self.lead, signed_in)
        yield get(ACCOUNT, self.show, signed_in)
        yield post(f"{ACCOUNT}/verify", self.send_verification, signed_in)
        yield post(f"{ACCOUNT}/claim", self.send_claim, signed_in)
        yield get(password, self.ask_password, fresh)
        yield post(password, self.change_password, fresh)

    async def lead(self, request: PageRequest) -> PageResponse:  # noqa: ARG002
        """Lead to the page of settings that most people come for."""
        return Redirect("/settings/api-keys")

    async def show(self, request: PageRequest) -> PageResponse:
        """Show what the account is, and what can be done with it."""
        agents = await self._people.claimable(request.signed_in)
        return Page("account.html", {"agents": agents})

    async def send_verification(self, request: PageRequest) -> PageResponse:
        """Write a link to the mailbox."""
        await self._people.request_verification(request.signed_in)
        return Redirect(ACCOUNT, notice="verification-sent")

    async def send_claim(self, request: PageRequest) -> PageResponse:
        """Write a link to the mailbox of an agent."""
        agent = UserId(parse_id(request.form.text("agent")))
        if not await self._people.request_claim(request.signed_in, agent):
            raise NotFound
        return Redirect(ACCOUNT, notice="claim-sent")

    async def ask_password(self, request: PageRequest) -> PageResponse:  # noqa: ARG002
        """Ask for the new password."""
        return Page("password.html")

    async def change_password(self, request: PageRequest) -> PageResponse:
        """Set it; all other sessions end."""
        try:
            await self._people.change_password(request.signed_in, request.form.text("password"))
        except WeakPassword as flaw:
            return Page("password.html", errors={"password": sentence(flaw)}, status=UNPROCESSABLE)
        return Redirect(ACCOUNT, notice="password-changed")
