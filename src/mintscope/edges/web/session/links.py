"""What links in letters lead to: looking at a page changes nothing, its buttons do."""

from collections.abc import Iterable

from mintscope.base.errors import BadRequest
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.signups.signups import Signups
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.pages.reply import Goto, Page, Reply, link_gone
from mintscope.edges.web.routes import Access, Route


class LinkPages:
    """Confirming an application, verifying a mailbox, claiming an agent."""

    def __init__(self, people: People, signup: Signups) -> None:
        self._people = people
        self._signup = signup

    def routes(self) -> Iterable[Route]:
        """Return the rows of this group."""
        signed_in, fresh = Access.SIGNED_IN, Access.FRESH
        confirm, verify, claim = "/confirm/{link}", "/verify/{link}", "/claim/{link}"
        yield Route(method="GET", path=confirm, handler=self.ask_confirm)
        yield Route(method="POST", path=confirm, handler=self.confirm)
        yield Route(method="GET", path="/confirmed", handler=self.show_confirmed)
        yield Route(method="GET", path="/disowned", handler=self.show_disowned)
        yield Route(method="GET", path=verify, handler=self.ask_verify, access=signed_in)
        yield Route(method="POST", path=verify, handler=self.verify, access=signed_in)
        yield Route(method="GET", path=claim, handler=self.ask_claim, access=fresh)
        yield Route(method="POST", path=claim, handler=self.claim, access=fresh)

    async def ask_confirm(self, visit: Visit) -> Reply:
        """Ask the reader of the mailbox whether the application is theirs."""
        email = await self._signup.find_by_link(visit.parameters["link"])
        return link_gone("confirm") if email is None else Page("confirm.html", {"email": email})

    async def confirm(self, visit: Visit) -> Reply:
        """Confirm the application, or delete it for somebody who never made it."""
        link, answer = visit.parameters["link"], visit.form.text("answer")
        if answer == "mine":
            is_done = await self._signup.confirm_by_link(link)
            return Goto("/confirmed") if is_done else link_gone("confirm")
        if answer == "not-mine":
            is_done = await self._signup.disown(link)
            return Goto("/disowned") if is_done else link_gone("confirm")
        raise BadRequest("expected the answer mine or not-mine")

    async def show_confirmed(self, visit: Visit) -> Reply:  # noqa: ARG002
        """Say what comes next."""
        return Page("confirmed.html")

    async def show_disowned(self, visit: Visit) -> Reply:  # noqa: ARG002
        """Say that nothing is left of it."""
        return Page("disowned.html")

    async def ask_verify(self, visit: Visit) -> Reply:
        """Offer the button."""
        if visit.signed_in.user.verified_at is not None:
            return Goto("/settings/account", notice="verified")
        return Page("verify.html")

    async def verify(self, visit: Visit) -> Reply:
        """Verify the mailbox of the person signed in, if the link was sent to that account."""
        is_done = await self._people.verify(visit.signed_in, visit.parameters["link"])
        if not is_done:
            return link_gone("verify")
        return Goto("/settings/account", notice="verified")

    async def ask_claim(self, visit: Visit) -> Reply:  # noqa: ARG002
        """Offer the button."""
        return Page("claim.html")

    async def claim(self, visit: Visit) -> Reply:
        """Move the agent's keys to the person signed in."""
        agent = await self._people.claim(visit.signed_in, visit.parameters["link"])
        return link_gone("claim") if agent is None else Goto("/settings/api-keys", notice="claimed")
