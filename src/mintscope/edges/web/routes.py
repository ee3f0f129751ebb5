"""The routes of pages: what a handler is given, and who gets to it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Literal, Protocol

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.people.session import Browser, Session
from mintscope.edges.web.form import FormData
from mintscope.edges.web.pages.page import PageResponse

# Nothing that needs quoting in an address, and no dot segment: browsers take those for steps.
SEGMENT: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,128}"

START: Final = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request to a page, which has passed every check already.

    path_params   the texts of the variable segments of the path, by name
    query_params  the fields after the question mark
    form          the fields of a POST
    session       None without one
    browser       where it comes from
    bearer        the credential of the Authorization header, which pages are sent by one purchase
                  alone: a top-up; "" without
    next_path     the page of this site to go to when done: from `next`, never another site's
    """

    now: UnixMs
    browser: Browser
    session: Session | None = None
    path_params: Mapping[str, str] = field(default_factory=dict)
    query_params: FormData = field(default_factory=FormData)
    form: FormData = field(default_factory=FormData)
    next_path: str = START
    bearer: str = ""

    @property
    def signed_in(self) -> Session:
        """The session, on routes that need one."""
        assert self.session is not None
        return self.session


PageHandler = Callable[[PageRequest], Awaitable[PageResponse]]


class Access(IntEnum):
    """The people who get to a handler; each includes those before it.

    ANYONE         forms are checked by their origin alone
    SIGNED_IN      a session; forms carry its `csrf`. Others are sent to sign in
    FRESH          and the password was entered in the last ten minutes, else it is asked for
    """

    ANYONE = 0
    SIGNED_IN = 1
    FRESH = 2


# Routes that prove, buy, or end something: a thief who uses up the budget must not keep the owner
# from ending sessions, keys and factors.  Each of these ends once, and was counted when it was
# made.
NOT_COUNTED: Final = (
    *("/sign-out", "/prove", "/view"),
    *("/delete", "/end", "/end-others", "/remove", "/revoke"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """A page, or a form that is sent to it.

    path              as in `server.routes.Route`
    is_from_anywhere  its form comes from no page of ours, carries its proof in the path, and is not
                      read: the one click of a mail program
    """

    method: Literal["GET", "POST"]
    path: str
    handler: PageHandler
    access: Access = Access.ANYONE
    is_from_anywhere: bool = False

    @property
    def is_administration(self) -> bool:
        """Whether only administrators know of it; to others it is 404."""
        return self.path.startswith("/admin")

    @property
    def is_counted(self) -> bool:
        """Whether its form counts as a write of the account: not what ends, proves or buys."""
        is_own = self.access is not Access.ANYONE and not self.is_administration
        return is_own and not self.path.endswith(NOT_COUNTED)


def get(path: str, handler: PageHandler, access: Access = Access.ANYONE) -> PageRoute:
    """Return the route of a page."""
    return PageRoute(method="GET", path=path, handler=handler, access=access)


def post(path: str, handler: PageHandler, access: Access = Access.ANYONE) -> PageRoute:
    """Return the route of a form."""
    return PageRoute(method="POST", path=path, handler=handler, access=access)


def shows(page: PageResponse) -> PageHandler:
    """Return the handler that returns *page* to every request."""

    async def show(_request: PageRequest) -> PageResponse:
        return page

    return show


class PageGroup(Protocol):
    """A group of pages: one module each."""

    def routes(self) -> Iterable[PageRoute]:
        """Return its routes."""
        ...
