"""Settings > Sessions: where the person is signed in, and ending that."""

from collections.abc import Iterable
from typing import Final

from mintscope.core.accounts.people.people import People
from mintscope.core.accounts.people.session import SessionId
from mintscope.edges.web.forms.request import START, PageRequest
from mintscope.edges.web.pages.page import END_SESSION, Page, PageResponse, Redirect
from mintscope.edges.web.pages.paging import parse_id
from mintscope.edges.web.routes import Access, PageRoute, get, post

SESSIONS: Final = "/settings/sessions"


class SessionPages:
    """What a person does with their sessions."""

    def __init__(self, people: People) -> None:
        self._people = people

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        access = Access.SIGNED_IN
        yield get(SESSIONS, self.show, access)
        yield post(f"{SESSIONS}/end", self.end, access)
        yield post(f"{SESSIONS}/end-others", self.end_others, access)

    async def show(self, request: PageRequest) -> PageResponse:
        """List them, this one first."""
        here = request.signed_in
        sessions = await self._people.sessions(here.user.user_id)
        ordered = sorted(sessions, key=lambda each: each.session_id != here.session_id)
        return Page("sessions.html", {"sessions": ordered})

    async def end(self, request: PageRequest) -> PageResponse:
        """End one; one that is ended already, or was never the person's, is no news."""
        here = request.signed_in
        session_id = SessionId(parse_id(request.form.text("session")))
        await self._people.end_session(here.user.user_id, session_id)
        if session_id == here.session_id:
            return Redirect(START, notice="signed-out", cookie=END_SESSION)
        return Redirect(SESSIONS, notice="session-ended")

    async def end_others(self, request: PageRequest) -> PageResponse:
        """End all but this one."""
        await self._people.end_other_sessions(request.signed_in)
        return Redirect(SESSIONS, notice="sessions-ended")
