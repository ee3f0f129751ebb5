"""The second page of signing in: a code, or a passkey."""

from collections.abc import Iterable, Mapping
from typing import Final

from mintscope.core.accounts.factors.codes import WrongCode
from mintscope.core.accounts.factors.passkeys import PasskeyRefused
from mintscope.core.accounts.factors.second_step import SecondStep
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import NO_ERRORS, Page, PageResponse, Redirect
from mintscope.edges.web.routes import PageRequest, PageRoute, get, post, shows

SIGN_IN: Final = "/sign-in"
WRONG: Final = "That code is not right, or was used before."
OVER: Final = "That took too long, or was done already. Sign in once more."


class SecondStepPages:
    """The second step once the password was right; the ticket is in the form alone."""

    def __init__(self, step: SecondStep) -> None:
        self._step = step

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        for path, handler in (("code", self.by_code), ("passkey", self.by_passkey)):
            yield get(f"{SIGN_IN}/{path}", shows(Redirect(SIGN_IN)))
            yield post(f"{SIGN_IN}/{path}", handler)

    async def ask(self, request: PageRequest, ticket: str) -> PageResponse:
        """Ask for the second factor of the sign-in that *ticket* names."""
        return await self._page(request, ticket)

    async def by_code(self, request: PageRequest) -> PageResponse:
        """Go on in a new session, for a right code."""
        ticket = request.form.text("ticket")
        code = request.form.line("code")
        try:
            cookie = await self._step.by_code(ticket, code, request.browser)
        except WrongCode:
            return await self._page(request, ticket, {"code": WRONG})
        return _entered(request, cookie)

    async def by_passkey(self, request: PageRequest) -> PageResponse:
        """Go on in a new session, for what a passkey signed."""
        ticket = request.form.text("ticket")
        answer = request.form.text("answer")
        try:
            cookie = await self._step.by_passkey(ticket, answer, request.browser)
        except PasskeyRefused as refused:
            return await self._page(request, ticket, {"": sentence(refused)})
        return _entered(request, cookie)

    async def _page(
        self, request: PageRequest, ticket: str, errors: Mapping[str, str] = NO_ERRORS
    ) -> PageResponse:
        waiting = await self._step.waiting(ticket)
        if waiting is None:
            return _over(request)
        facts = {"waiting": waiting, "ticket": ticket, "after": request.next_path}
        return Page("factors/sign_in.html", facts, errors)


def _entered(request: PageRequest, cookie: str | None) -> PageResponse:
    return _over(request) if cookie is None else Redirect(request.next_path, cookie=cookie)


def _over(request: PageRequest) -> Page:
    return Page("sign_in.html", {"after": request.next_path}, {"": OVER})
