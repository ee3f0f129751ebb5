"""Entering the password again, before what needs it."""

from collections.abc import Iterable

from mintscope.core.accounts.people.people import People, WrongPassword
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.pages.reply import UNMET, Goto, Page, Reply
from mintscope.edges.web.routes import Access, Route


class ProvingPages:
    """The page at `/prove`."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[Route]:
        """Return the rows of this group."""
        access = Access.SIGNED_IN
        yield Route(method="GET", path="/prove", handler=self.ask, access=access)
        yield Route(method="POST", path="/prove", handler=self.prove, access=access)

    async def ask(self, visit: Visit) -> Reply:
        """Ask for the password, unless it was entered a short time ago."""
        if visit.signed_in.is_fresh(visit.now):
            return Goto(visit.after)
        return Page("prove.html", {"after": visit.after})

    async def prove(self, visit: Visit) -> Reply:
        """Note that it was entered, and go back to what needed it."""
        try:
            await self._people.prove(visit.signed_in, visit.form.text("password"))
        except WrongPassword:
            errors = {"password": "That is not your password."}
            return Page("prove.html", {"after": visit.after}, errors=errors, status=UNMET)
        return Goto(visit.after)
