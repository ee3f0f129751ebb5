"""The open connections of a server and their limits, and the fast path.

The fast path does the same as the application, in the same order, for requests that it can answer
completely.  The application answers all other requests.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from secrets import token_hex
from time import perf_counter
from typing import TYPE_CHECKING, Final, Protocol

from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceError
from mintscope.kit.fair_queue import FairQueue
from mintscope.kit.http.request import UNROUTED, ClientAddresses, network_key
from mintscope.kit.http.response import Bounds, Head, Header, Response
from mintscope.kit.http.whole_response import STATUS_LINE
from mintscope.kit.limits import SITE_SHARES, site_key
from mintscope.kit.metrics import DISCONNECTED_STATUS, REQUESTS
from mintscope.kit.primitives import UnixMs

if TYPE_CHECKING:
    from mintscope.kit.http.dispatch import DispatchingProtocol


class FastPath(Protocol):
    """Answers frequent requests, such as paid reports, without the application."""

    def take(self, request: "FastPathCycle") -> bool:
        """Return whether the fast path takes *request*.

        If it returns True, the fast path answers, now or later, or calls `request.fall_back`.  If
        it returns False, it has done nothing.
        """


class _NoEvent:
    def set(self) -> None:
        """Do nothing, because no task waits for this event."""


NO_EVENT: Final = _NoEvent()
CLOSE: Final = b"connection: close\r\n"


class FastPathCycle:
    """A request that the fast path is answering; other requests have a `WholeResponse`."""

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

    def __init__(self, answering: "DispatchingProtocol", head: Head) -> None:
        self._answering = answering
        self._began_s = perf_counter()
        self.head = head
        self.route = UNROUTED
        self.keep_alive = True
        self.is_followed_by_end = False
        self.response_complete = False
        self.disconnected = False

    def is_gone(self) -> bool:
        """Return whether the client has left."""
        return self._answering.is_gone()

    def leave(self) -> None:
        """Count the request as one whose client has left before the response."""
        REQUESTS.count(self.route, DISCONNECTED_STATUS, perf_counter() - self._began_s)

    def respond(self, head: bytes, body: bytes) -> None:
        """Send a response with status 200, the header lines *head*, and *body*."""
        last = b"" if self.keep_alive else CLOSE
        date = self._answering.date_lines()
        self._answering.write_fast_path(
            self, b"HTTP/1.1 200 OK\r\n%b%b%b\r\n%b" % (date, head, last, body)
        )
        REQUESTS.count(self.route, 200, perf_counter() - self._began_s)

    def fall_back(self) -> None:
        """Let the application answer this request, because the fast path cannot."""
        self._answering.start_instead(self)


SWEEP_S: Final = 1.0  # seconds between two checks for idle connections


class RefusalWriter(Protocol):
    """Writes the responses with which the server itself refuses: 400, 408, 413, 431 and 503."""

    def __call__(
        self, error: ServiceError, *, path: bytes, at: UnixMs, request_id: bytes
    ) -> Response:
        """Return the response for *error* to a request for *path*."""


class Connection(Protocol):
    """An open connection, which can be closed to make room for a new one."""

    def give_way(self) -> None:
        """Close the connection, after the responses that have been started, if there are any."""


@dataclass(slots=True, eq=False)
class Group:
    """Connections with a common limit: all, those of one client, or those of an IPv6 /48.

    incomplete   connections that have sent no request yet or only a part of one, the oldest first
    idle         other connections without an open response, each with the monotonic time in seconds
                 until which it may not be closed to make room
    """

    name: str
    count_max: int
    count: int = 0
    incomplete: dict[Connection, None] = field(default_factory=dict)
    idle: dict[Connection, float] = field(default_factory=dict)

    def has_room(self, now_s: float) -> bool:
        """Return whether one more connection fits; if necessary, close one to make room.

        The oldest connection without a complete request is closed, or else the one that has been
        idle for longest, if it has been idle for long enough.
        """
        if self.count < self.count_max:
            return True
        # A client without a whole request loses least.
        oldest = next(iter(self.incomplete), None)
        if oldest is None:
            oldest, stays_until_s = next(iter(self.idle.items()), (None, 0.0))
            if oldest is None or now_s < stays_until_s:
                return False
        oldest.give_way()
        return True


@dataclass(slots=True, kw_only=True)
class Connections:
    """The connections of a server, with the limits and functions that they share."""

    clock: Clock
    write_refusal: RefusalWriter  # returns the response to a request that reaches no route
    bounds: Bounds
    addresses: ClientAddresses
    fast_path: FastPath | None = None  # answers plain requests; None: there is none
    queue: FairQueue = field(default_factory=FairQueue)  # for connections that have not paid
    websocket_paths: Collection[bytes] = ()  # of routes that accept a WebSocket
    _groups: dict[str, Group] = field(default_factory=dict)
    _members: dict[Connection, tuple[Group, ...]] = field(default_factory=dict)
    _lingering: set[Connection] = field(default_factory=set)
    _resting: dict[Connection, float] = field(
        default_factory=dict
    )  # the time when each must be closed, soonest first
    _sweeping: asyncio.TimerHandle | None = None
    _dated: Sequence[Header] = ()
    _date_lines: bytes = b""
    _kept: dict[Connection, int] = field(
        default_factory=dict
    )  # bytes of incomplete requests, the oldest first
    _kept_bytes: int = 0

    def enter(self, connection: Connection, peer: str) -> bool:
        """Count *connection* if there is room for it, and return whether there is.

        An incomplete or idle connection may be closed to make room.  A connection whose *peer* is
        a configured proxy counts only in the total.
        """
        now_s = self.clock.monotonic_s()
        groups = tuple(self._groups_of(peer))
        # The narrowest first: a connection that gives way leaves all its groups at once.
        if not all(group.has_room(now_s) for group in groups):
            return False
        for group in groups:
            group.count += 1
            self._groups[group.name] = group
        self._members[connection] = groups
        return True

    def leave(self, connection: Connection) -> None:
        """Remove *connection* from all counts; later calls do nothing."""
        self._lingering.discard(connection)
        self._resting.pop(connection, None)
        self.keep(connection, 0)
        for group in self._members.pop(connection, ()):
            group.incomplete.pop(connection, None)
            group.idle.pop(connection, None)
            group.count -= 1
            # Otherwise a group would remain for every address that ever connected.
            if not group.count:
                del self._groups[group.name]

    def is_empty(self) -> bool:
        """Return whether no connection is open, and nothing is stored about earlier ones."""
        return not (self._groups or self._members or self._lingering or self._kept or self._resting)

    def keep(self, connection: Connection, size: int) -> None:
        """Record that *connection* holds *size* bytes of an incomplete or unread request.

        If all connections together hold too many bytes, those that have held bytes for longest are
        closed.
        """
        self._kept_bytes += size - self._kept.get(connection, 0)
        if size:
            self._kept[connection] = size
        else:
            self._kept.pop(connection, None)
        while self._kept_bytes > self.bounds.unread_bytes_max:
            oldest = next(iter(self._kept))
            self._kept_bytes -= self._kept.pop(oldest)
            oldest.give_way()

    def begin_waiting(self, connection: Connection) -> None:
        """Record that *connection* has an incomplete request, or has sent no request yet."""
        for group in self._members.get(connection, ()):
            group.incomplete[connection] = None

    def end_waiting(self, connection: Connection) -> None:
        """Record that the request of *connection* is complete or refused."""
        for group in self._members.get(connection, ()):
            group.incomplete.pop(connection, None)

    def begin_idling(self, connection: Connection, *, stays_s: float) -> None:
        """Record that *connection* is idle.

        After *stays_s* seconds, the connection may be closed to make room for another one.
        """
        until_s = self.clock.monotonic_s() + stays_s
        for group in self._members.get(connection, ()):
            group.idle[connection] = until_s

    def end_idling(self, connection: Connection) -> None:
        """Remove *connection* from the idle connections, which are closed first to make room."""
        self._resting.pop(connection, None)
        for group in self._members.get(connection, ()):
            group.idle.pop(connection, None)

    def begin_resting(self, connection: Connection) -> None:
        """Record that *connection* waits for its next request, for `keep_alive_s_max` at most.

        Then it is closed; if another connection needs the place, it is closed sooner.
        """
        groups = self._members.get(connection)
        if groups is None:
            return
        now_s = self.clock.monotonic_s()
        bounds = self.bounds
        self._resting[connection] = now_s + bounds.keep_alive_s_max
        for group in groups:
            group.idle[connection] = now_s + bounds.idle_s_min
        # One timer serves all connections: one for each would be set with every response.
        if self._sweeping is None:
            self._sweep()

    def _sweep(self) -> None:
        """Close the connections that have been idle for too long; repeat this from time to time."""
        now_s = self.clock.monotonic_s()
        self._sweeping = None
        overdue = list(takewhile(lambda each: self._resting[each] <= now_s, self._resting))
        for connection in overdue:
            del self._resting[connection]
            connection.give_way()
        if self._resting:
            pause_s = min(SWEEP_S, self.bounds.keep_alive_s_max)
            self._sweeping = asyncio.get_running_loop().call_later(pause_s, self._sweep)

    def may_linger(self, connection: Connection) -> bool:
        """Return whether a refused *connection* may stay open until its client has read the error.

        At most `lingering_max` connections may, including this one.
        """
        if len(self._lingering) < self.bounds.lingering_max:
            self._lingering.add(connection)
        return connection in self._lingering

    def refusal(self, error: ServiceError, *, path: bytes) -> bytes:
        """Return the bytes of the response with which *error* refuses a request for *path*."""
        request_id = token_hex(8).encode()
        response = self.write_refusal(error, path=path, at=self.clock.now(), request_id=request_id)
        headers = (
            *response.headers,
            (b"content-length", b"%d" % len(response.body)),
            (b"x-request-id", request_id),
            (b"connection", b"close"),
        )
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        return b"%b%b\r\n%b" % (STATUS_LINE[response.status], lines, response.body)

    def lines_of(self, headers: Sequence[Header]) -> bytes:
        """Return *headers* as lines of HTTP; they are cached while *headers* is the same object."""
        if headers is not self._dated:
            self._dated = headers
            self._date_lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._date_lines

    def _groups_of(self, peer: str) -> Iterator[Group]:
        """Yield the groups in which a connection counts: its client's, its IPv6 /48's, and all.

        peer   the address of the connection; a configured proxy counts only in the last group
        """
        per_client_max = self.bounds.connections_per_client_max
        if not self.addresses.is_proxy(peer):
            client = network_key(peer)
            yield self._group(client, per_client_max)
            if (site := site_key(client)) != client:
                yield self._group(site, SITE_SHARES * per_client_max)
        yield self._group("", self.bounds.connections_max)

    def _group(self, name: str, count_max: int) -> Group:
        return self._groups.get(name) or Group(name, count_max)
