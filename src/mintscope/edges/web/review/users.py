"""Accounts for administrators: users, the audit log; and removing one."""

from collections.abc import Iterable, Sequence
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.core.accounts.audit import EventFilter
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.people.access import NotPossible
from mintscope.core.accounts.reviews import Reviews
from mintscope.core.accounts.user import User, UserId
from mintscope.edges.server.request import parse_id
from mintscope.edges.web.form import parse_place, sentence
from mintscope.edges.web.pages.page import END_SESSION, Page, PageResponse, Redirect
from mintscope.edges.web.routes import Access, PageRequest, PageRoute, get, post

USERS: Final = "/admin/users"
AUDIT: Final = "/admin/audit"
PAGE_LENGTH: Final = 50
FILTER_LENGTH_MAX: Final = 254
SUBJECT_PAGES: Final = {"application": "/admin/applications/"}


class UserPages:
    """Accounts, and the log of what was done to them."""

    def __init__(self, review: Reviews) -> None:
        self._review = review

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        removal = f"{USERS}/{{user}}/remove"
        yield get(USERS, self.list, Access.SIGNED_IN)
        yield get(removal, self.ask_remove, Access.FRESH)
        yield post(removal, self.remove, Access.FRESH)
        yield get(AUDIT, self.audit, Access.SIGNED_IN)

    async def list(self, request: PageRequest) -> PageResponse:
        """Show the accounts, newest first."""
        before = parse_place(request.query_params.line("before"))
        rows = await self._review.users(
            before=None if before is None else UserId(before), limit=PAGE_LENGTH + 1
        )
        return Page("admin/users.html", {"users": rows[:PAGE_LENGTH]} | _place(rows, before))

    async def ask_remove(self, request: PageRequest) -> PageResponse:
        """Ask whether the account shall really go."""
        return _removal(await self._user(request), request)

    async def remove(self, request: PageRequest) -> PageResponse:
        """Remove the account whose user name was typed."""
        user = await self._user(request)
        typed = request.form.line("username")
        if typed != user.username:
            return _removal(user, request, field="username", error=f"Type {user.username} here.")
        try:
            await self._review.remove_user(user.user_id, actor=request.signed_in)
        except NotPossible as error:
            return _removal(user, request, field="", error=sentence(error))
        if user.user_id == request.signed_in.user.user_id:
            return Redirect("/sign-in", notice="account-removed", cookie=END_SESSION)
        return Redirect(USERS, notice="account-removed")

    async def audit(self, request: PageRequest) -> PageResponse:
        """Show what was done, newest first."""
        before = parse_place(request.query_params.line("before"))
        who = request.query_params.line("who")[:FILTER_LENGTH_MAX]
        action = request.query_params.line("action")[:FILTER_LENGTH_MAX]
        wanted = EventFilter(await self._subject(who), action.lower())
        rows = await self._review.events(before=before, limit=PAGE_LENGTH + 1, wanted=wanted)
        shown = rows[:PAGE_LENGTH]
        named = {name for _, event in shown for name in (event.actor, event.subject)}
        facts = {
            "events": shown,
            "subject_pages": SUBJECT_PAGES,
            "names": await self._review.names(named),
            "query": {name: text for name, text in (("who", who), ("action", action)) if text},
        }
        values = {"who": who, "action": action}
        return Page("admin/audit.html", facts | _place(rows, before), values=values)

    async def _subject(self, who: str) -> str:
        """Return how the log names *who*: an e-mail address, or a name of the log itself."""
        if "@" not in who:
            return who
        return await self._review.subject_of(EmailAddress(who.lower())) or who

    async def _user(self, request: PageRequest) -> User:
        user = await self._review.user(UserId(parse_id(request.path_params["user"])))
        if user is None:
            raise NotFound
        return user


def _place(rows: Sequence[object], before: int | None) -> dict[str, bool]:
    """Return whether a list goes on after *rows*, and whether it began with them."""
    return {"has_more": len(rows) > PAGE_LENGTH, "is_first": before is None}


def _removal(user: User, request: PageRequest, *, field: str = "", error: str = "") -> Page:
    return Page(
        "admin/remove.html",
        {"user": user, "is_own": user.user_id == request.signed_in.user.user_id},
        values={"username": request.form.line("username")},
        errors={field: error} if error else {},
    )
