"""The routes of pages: a handler, and who gets to it."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, Protocol

from mintscope.edges.web.forms.request import PageRequest
from mintscope.edges.web.pages.page import PageResponse

# Nothing that needs quoting in an address, and no dot segment: browsers take those for steps.
SEGMENT: Final = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]{1,128}"

PageHandler = Callable[[PageRequest], Awaitable[PageResponse]]


class Access(IntEnum):
    """Who gets to a handler; each includes those before it.

    ANYONE         forms are checked by their origin alone
    SIGNED_IN      a session; forms carry its `csrf`. Others are sent to sign in
    FRESH          and the password was entered in the last ten minutes, else it is asked for
    """

    ANYONE = 0
    SIGNED_IN = 1
    FRESH = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """A page, or a form that is sent to it.

    path              as in `server.routes.Route`
    is_administration only administrators know of it: to others it is 404
    """

    method: Literal["GET", "POST"]
    path: str
    handler: PageHandler
    access: Access = Access.ANYONE
    is_administration: bool = False


def get(path: str, handler: PageHandler, access: Access = Access.ANYONE) -> PageRoute:
    """Return the route of a page."""
    return PageRoute(method="GET", path=path, handler=handler, access=access)


def post(path: str, handler: PageHandler, access: Access = Access.ANYONE) -> PageRoute:
    """Return the route of a form."""
    return PageRoute(method="POST", path=path, handler=handler, access=access)


class PageGroup(Protocol):
    """A group of pages: one module each."""

    def routes(self) -> Iterable[PageRoute]:
        """Return its routes."""
        ...
