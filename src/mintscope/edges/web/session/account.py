"""Settings > Account and Settings > Sessions."""

from collections.abc import Iterable, Mapping
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.core.accounts.people.password import WeakPassword
from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.people.session import SessionId
from mintscope.core.accounts.user import UnusableName, UserId
from mintscope.edges.server.request import parse_id
from mintscope.edges.web.form import sentence
from mintscope.edges.web.pages.page import END_SESSION, NO_ERRORS, Page, PageResponse, Redirect
from mintscope.edges.web.routes import START, Access, PageRequest, PageRoute, get, post, shows

ACCOUNT: Final = "/settings/account"
SESSIONS: Final = "/settings/sessions"


class AccountPages:
    """The mailbox, the password, agents that can be claimed; where the person is signed in."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        password = f"{ACCOUNT}/password"
        signed_in = Access.SIGNED_IN
        fresh = Access.FRESH
        yield get("/settings", shows(Redirect("/settings/api-keys")), signed_in)
        yield get(ACCOUNT, self.show, signed_in)
        yield post(f"{ACCOUNT}/name", self.rename, signed_in)
        yield post(f"{ACCOUNT}/verify", self.send_verification, signed_in)
        yield post(f"{ACCOUNT}/claim", self.send_claim, signed_in)
        yield get(password, shows(Page("password.html")), fresh)
        yield post(password, self.change_password, fresh)
        yield get(SESSIONS, self.show_sessions, signed_in)
        yield post(f"{SESSIONS}/end", self.end_session, signed_in)
        yield post(f"{SESSIONS}/end-others", self.end_other_sessions, signed_in)

    async def show(self, request: PageRequest) -> PageResponse:
        """Show what the account is, and what can be done with it."""
        return await self._show(request, {"username": request.signed_in.user.username})

    async def rename(self, request: PageRequest) -> PageResponse:
        """Give the account another user name."""
        name = request.form.line("username").lower()
        try:
            await self._people.rename(request.signed_in, name)
        except UnusableName as flaw:
            return await self._show(request, {"username": name}, {"username": sentence(flaw)})
        return Redirect(ACCOUNT, notice="account-renamed")

    async def _show(
        self,
        request: PageRequest,
        values: Mapping[str, str],
        errors: Mapping[str, str] = NO_ERRORS,
    ) -> Page:
        agents = await self._people.claimable(request.signed_in)
        return Page("account.html", {"agents": agents}, errors=errors, values=values)

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

    async def change_password(self, request: PageRequest) -> PageResponse:
        """Set it; all other sessions end."""
        try:
            await self._people.change_password(request.signed_in, request.form.text("password"))
        except WeakPassword as flaw:
            return Page("password.html", errors={"password": sentence(flaw)})
        return Redirect(ACCOUNT, notice="password-changed")

    async def show_sessions(self, request: PageRequest) -> PageResponse:
        """List the sessions, this one first."""
        here = request.signed_in
        sessions = await self._people.sessions(here.user.user_id)
        ordered = sorted(sessions, key=lambda each: each.session_id != here.session_id)
        return Page("sessions.html", {"sessions": ordered})

    async def end_session(self, request: PageRequest) -> PageResponse:
        """End a session; one that is ended already, or was never the person's, is no news."""
        here = request.signed_in
        session_id = SessionId(parse_id(request.form.text("session")))
        await self._people.end_session(here.user.user_id, session_id)
        if session_id == here.session_id:
            return Redirect(START, notice="signed-out", cookie=END_SESSION)
        return Redirect(SESSIONS, notice="session-ended")

    async def end_other_sessions(self, request: PageRequest) -> PageResponse:
        """End all sessions but this one."""
        await self._people.end_other_sessions(request.signed_in)
        return Redirect(SESSIONS, notice="sessions-ended")
