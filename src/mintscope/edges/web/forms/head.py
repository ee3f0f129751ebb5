"""A request's head, and what is learned of it on the way to its answer."""

import secrets
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.types import Receive, Scope

from mintscope.core.accounts.people.session import AGENT_LENGTH_MAX, Session
from mintscope.edges.web.pages.reply import COOKIE

UNROUTED: Final = "unrouted"


class Head:
    """Read once; *route*, *session* and *notice* become known one after the other.

    route   the path of the row that fits, for the metrics
    notice  what the page before wants to be told here, as a key of NOTICES
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers = Headers(scope=scope)
        self.request_id = secrets.token_hex(8)
        self.route = UNROUTED
        self.session: Session | None = None
        self.notice = ""

    @property
    def is_form(self) -> bool:
        """Whether it asks for a change."""
        return self.method == "POST"

    @property
    def agent(self) -> str:
        """What the browser says it is."""
        return self.headers.get("user-agent", "")[:AGENT_LENGTH_MAX]

    def cookie(self) -> str | None:
        """Return the session's cookie; None without one, and for several, which say two things."""
        found = [
            value
            for header in self.headers.getlist("cookie")
            for name, value in cookie_parser(header).items()
            if name == COOKIE
        ]
        return found[0] if len(found) == 1 else None
