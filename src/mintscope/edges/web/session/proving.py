"""Entering the password again, before what needs it."""

from collections.abc import Iterable

from mintscope.core.accounts.people.password import WrongPassword
from mintscope.core.accounts.people.people import People
from mintscope.edges.web.forms.request import PageRequest
from mintscope.edges.web.pages.page import UNPROCESSABLE, Page, PageResponse, Redirect
from mintscope.edges.web.routes import Access, PageRoute


class ProvingPages:
    """The page at `/prove`."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[PageRoute]:
        """Return the rows of this group."""
        access = Access.SIGNED_IN
        yield PageRoute(method="GET", path="/prove", handler=self.ask, access=access)
        yield PageRoute(method="POST", path="/prove", handler=self.prove, access=access)

    async def ask(self, request: PageRequest) -> PageResponse:
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
            return Page(
                "prove.html", {"after": request.next_path}, errors=errors, status=UNPROCESSABLE
            )
        return Redirect(request.next_path)
