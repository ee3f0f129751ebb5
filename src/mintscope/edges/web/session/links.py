"""The pages that links in e-mails lead to: a page changes nothing, its buttons do."""

from collections.abc import Iterable

from mintscope.base.errors import BadRequest
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.web.forms.request import PageRequest
from mintscope.edges.web.pages.page import Page, PageResponse, Redirect, link_gone
from mintscope.edges.web.routes import Access, PageRoute, get, post


class LinkPages:
    """Confirming an application, verifying a mailbox, claiming an agent."""

    def __init__(self, people: People, signup: Signups) -> None:
        self._people = people
        self._signup = signup

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        signed_in, fresh = Access.SIGNED_IN, Access.FRESH
        confirm, verify, claim = "/confirm/{link}", "/verify/{link}", "/claim/{link}"
        yield get(confirm, self.ask_confirm)
        yield post(confirm, self.confirm)
        yield get("/confirmed", self.show_confirmed)
        yield get("/disowned", self.show_disowned)
        yield get(verify, self.ask_verify, signed_in)
        yield post(verify, self.verify, signed_in)
        yield get(claim, self.ask_claim, fresh)
        yield post(claim, self.claim, fresh)

    async def ask_confirm(self, request: PageRequest) -> PageResponse:
        """Ask the reader of the mailbox whether the application is theirs."""
        email = await self._signup.find_by_link(request.path_params["link"])
        return link_gone("confirm") if email is None else Page("confirm.html", {"email": email})

    async def confirm(self, request: PageRequest) -> PageResponse:
        """Confirm the application, or delete it where the reader never made it."""
        link, answer = request.path_params["link"], request.form.text("answer")
        if answer == "mine":
            is_done = await self._signup.confirm_by_link(link)
            return Redirect("/confirmed") if is_done else link_gone("confirm")
        if answer == "not-mine":
            is_done = await self._signup.disown(link)
            return Redirect("/disowned") if is_done else link_gone("confirm")
        raise BadRequest("expected the answer mine or not-mine")

    async def show_confirmed(self, request: PageRequest) -> PageResponse:  # noqa: ARG002
        """Say what comes next."""
        return Page("confirmed.html")

    async def show_disowned(self, request: PageRequest) -> PageResponse:  # noqa: ARG002
        """Say that nothing is left of it."""
        return Page("disowned.html")

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

    async def ask_claim(self, request: PageRequest) -> PageResponse:  # noqa: ARG002
        """Offer the button."""
        return Page("claim.html")

    async def claim(self, request: PageRequest) -> PageResponse:
        """Move the agent's keys to the person signed in."""
        agent = await self._people.claim(request.signed_in, request.path_params["link"])
        return (
            link_gone("claim")
            if agent is None
            else Redirect("/settings/api-keys", notice="claimed")
        )
