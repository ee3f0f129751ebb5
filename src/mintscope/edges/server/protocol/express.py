"""Plain requests that are answered at once: from the parser's callback, without the application.

The express may only do what the application would have done, in the same order, and nothing before
it is sure: whatever is not the plain case goes to the application, untouched.
"""

from time import perf_counter
from typing import Final, Protocol

from mintscope.base.metrics import DISCONNECTED_STATUS, REQUESTS
from mintscope.edges.server.protocol.head import Head
from mintscope.edges.server.request import UNROUTED


class PlainRequest(Protocol):
    """A GET without a body, by HTTP/1.1, on a connection that stays and on which nothing waits.

    route    for the metrics; who takes the request names it
    """

    route: str

    @property
    def head(self) -> Head:
        """Its line and headers."""

    def respond(self, head: bytes, body: bytes) -> None:
        """Send the response 200: *head* is its header lines, without the date and the end."""

    def fall_back(self) -> None:
        """Let the application answer."""

    def is_gone(self) -> bool:
        """Say whether the client has left: then nothing is to be done for it any more."""


class Express(Protocol):
    """Answers plain requests."""

    def take(self, request: PlainRequest) -> bool:
        """Say whether *request* is taken.

        Then it is answered, or falls back, now or later; else nothing was done.
        """


class AnsweringConnection(Protocol):
    """The connection of a request that is taken."""

    def write_express(self, cycle: "ExpressCycle", response: bytes) -> None:
        """Write *response*, and go on with the next request."""

    def start_instead(self, cycle: "ExpressCycle") -> None:
        """Let the application answer the request of *cycle*."""

    def is_gone(self) -> bool:
        """Say whether the client has left."""

    def date_lines(self) -> bytes:
        """Return the header lines that every response of the server begins with."""


class _NoEvent:
    def set(self) -> None:
        """Wake no one: there is no task of this cycle."""


NO_EVENT: Final = _NoEvent()
CLOSE: Final = b"connection: close\r\n"


class ExpressCycle:
    """A plain request under way; where uvicorn keeps its own cycles, this stands for one."""

    __slots__ = (
        "_answering",
        "_began_s",
        "disconnected",
        "head",
        "is_followed_by_end",
        "keep_alive",
        "response_complete",
        "route",
    )
    message_event = NO_EVENT

    def __init__(self, answering: AnsweringConnection, head: Head) -> None:
        self._answering = answering
        self._began_s = perf_counter()
        self.head = head
        self.route = UNROUTED
        self.keep_alive = True
        self.is_followed_by_end = False
        self.response_complete = False
        self.disconnected = False

    def is_gone(self) -> bool:
        """Say whether the client has left."""
        return self._answering.is_gone()

    def leave(self) -> None:
        """Note that the client has left before its response."""
        REQUESTS.count(self.route, DISCONNECTED_STATUS, perf_counter() - self._began_s)

    def respond(self, head: bytes, body: bytes) -> None:
        """Send the response 200."""
        last = b"" if self.keep_alive else CLOSE
        date = self._answering.date_lines()
        self._answering.write_express(
            self, b"HTTP/1.1 200 OK\r\n%b%b%b\r\n%b" % (date, head, last, body)
        )
        REQUESTS.count(self.route, 200, perf_counter() - self._began_s)

    def fall_back(self) -> None:
        """Let the application answer."""
        self._answering.start_instead(self)
