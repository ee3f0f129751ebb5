"""What administrators see of accounts: who there is, what was done; and removing one."""

from collections.abc import Iterable
from typing import Final

from mintscope.base.errors import NotFound
from mintscope.core.accounts.reviews import NotPossible, Reviews
from mintscope.core.accounts.user import User, UserId
from mintscope.edges.web.forms.visit import Visit
from mintscope.edges.web.forms.words import sentence
from mintscope.edges.web.pages.paging import cut, parse_id, parse_place
from mintscope.edges.web.pages.reply import END_SESSION, UNMET, Goto, Page, Reply
from mintscope.edges.web.review.applications import administration
from mintscope.edges.web.routes import Access, Route

USERS: Final = "/admin/users"
AUDIT: Final = "/admin/audit"
PAGE_LENGTH: Final = 50
SUBJECT_PAGES: Final = {"application": "/admin/applications/"}


class UserPages:
    """Accounts, and the log of what was done to them."""

    def __init__(self, review: Reviews) -> None:
        self._review = review

    def routes(self) -> Iterable[Route]:
        """Return the rows."""
        removal = f"{USERS}/{{user}}/remove"
        yield administration("GET", USERS, self.list, Access.SIGNED_IN)
        yield administration("GET", removal, self.ask_remove, Access.FRESH)
        yield administration("POST", removal, self.remove, Access.FRESH)
        yield administration("GET", AUDIT, self.audit, Access.SIGNED_IN)

    async def list(self, visit: Visit) -> Reply:
        """Show the accounts, newest first."""
        before = parse_place(visit.query.line("before"))
        rows = await self._review.users(
            before=None if before is None else UserId(before), limit=PAGE_LENGTH + 1
        )
        users, has_more = cut(rows, PAGE_LENGTH)
        facts = {"users": users, "has_more": has_more, "is_first": before is None}
        return Page("admin/users.html", facts)

    async def ask_remove(self, visit: Visit) -> Reply:
        """Ask whether the account shall really go."""
        return _removal(await self._user(visit), visit)

    async def remove(self, visit: Visit) -> Reply:
        """Remove the account whose user name was typed."""
        user = await self._user(visit)
        typed = visit.form.line("username")
        if typed != user.username:
            return _removal(user, visit, field="username", error=f"Type {user.username} here.")
        try:
            await self._review.remove_user(user.user_id, actor=visit.signed_in)
        except NotPossible as error:
            return _removal(user, visit, field="", error=sentence(error))
        if user.user_id == visit.signed_in.user.user_id:
            return Goto("/sign-in", notice="account-removed", cookie=END_SESSION)
        return Goto(USERS, notice="account-removed")

    async def audit(self, visit: Visit) -> Reply:
        """Show what was done, newest first."""
        before = parse_place(visit.query.line("before"))
        rows = await self._review.events(before=before, limit=PAGE_LENGTH + 1)
        events, has_more = cut(rows, PAGE_LENGTH)
        facts = {
            "events": events,
            "has_more": has_more,
            "is_first": before is None,
            "subject_pages": SUBJECT_PAGES,
        }
        return Page("admin/audit.html", facts)

    async def _user(self, visit: Visit) -> User:
        user = await self._review.user(UserId(parse_id(visit.parameters["user"])))
        if user is None:
            raise NotFound
        return user


def _removal(user: User, visit: Visit, *, field: str = "", error: str = "") -> Page:
    return Page(
        "admin/remove.html",
        {"user": user, "is_own": user.user_id == visit.signed_in.user.user_id},
        values={"username": visit.form.line("username")},
        errors={field: error} if error else {},
        status=UNMET if error else 200,
    )
