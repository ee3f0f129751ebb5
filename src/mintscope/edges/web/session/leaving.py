"""Deleting the account: what goes with it, in words, then the deed."""

from collections.abc import Iterable, Mapping
from typing import Final

from mintscope.core.accounts.holdings.account_credits import AccountCredits, Withdrawn
from mintscope.core.accounts.people.access import NotPossible
from mintscope.core.accounts.people.leaving import Leaving
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import END_SESSION, NO_ERRORS, Page, PageResponse, Redirect
from mintscope.edges.web.routes import START, Access, PageRequest, PageRoute, get, post
from mintscope.edges.web.session.account import ACCOUNT

DELETE: Final = f"{ACCOUNT}/delete"


class LeavingPages:
    """How a person leaves; the credits may be taken along, as a credit token."""

    def __init__(self, leaving: Leaving, credits_: AccountCredits) -> None:
        self._leaving = leaving
        self._credits = credits_

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get(DELETE, self.ask, Access.FRESH)
        yield post(DELETE, self.leave, Access.FRESH)

    async def ask(self, request: PageRequest) -> PageResponse:
        """Say what goes with the account."""
        return await self._page(request)

    async def leave(self, request: PageRequest) -> PageResponse:
        """Delete the account whose user name was typed."""
        here = request.signed_in
        if request.form.line("username") != here.user.username:
            errors = {"username": f"Type {here.user.username} here."}
            return await self._page(request, errors)
        try:
            await self._leaving.expect_possible(here)
            drawn = await self._draw(request)
            await self._leaving.leave(here)
        except NotPossible as error:
            return await self._page(request, {"": sentence(error)})
        if drawn is None:
            return Redirect(START, notice="account-deleted", cookie=END_SESSION)
        return Page("account/left.html", {"drawn": drawn}, cookie=END_SESSION)

    async def _draw(self, request: PageRequest) -> Withdrawn | None:
        """Return the credit token that takes the credits along, if that was asked for.

        A form that is sent twice gets the same one.
        """
        if request.form.text("keep") != "yes":
            return None
        user_id = request.signed_in.user.user_id
        key = f"leaving {request.signed_in.csrf}"
        drawn = await self._credits.withdraw(user_id, None, key)
        return drawn if isinstance(drawn, Withdrawn) else None

    async def _page(self, request: PageRequest, errors: Mapping[str, str] = NO_ERRORS) -> Page:
        facts = {"belongings": await self._leaving.belongings(request.signed_in)}
        values = {"username": request.form.line("username")}
        return Page("account/delete.html", facts, errors, values)
