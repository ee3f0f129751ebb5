"""The open connections of a server, counted in all and by client, and what each may take."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceError
from mintscope.base.fair_queue import FairQueue
from mintscope.base.limits import SITE_SHARES, site_key
from mintscope.base.primitives import UnixMs
from mintscope.edges.server.client_address import ClientAddresses, network_key
from mintscope.edges.server.response import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a client may take.

    url_bytes_max                of the address in the request line
    headers_max                  each is worth six times its bytes in memory, and a callback
    body_pieces_max              in which a body arrives: its chunks, or its packets
    waiting_max                  requests of one connection that wait behind the one under way
    unread_bytes_max             of bodies that are not whole and of what is not parsed yet, in all
    pause_s                      no request is read so long after one was refused as one too many
    idle_s_min                   an idle connection gives way to a new one only after so long
    connections_per_client_max   of an IPv4 address or an IPv6 /64; four times as many of a /48
    lingering_max                refused connections that are kept open until the client has read
    """

    head_bytes_max: int = 16 * 1024
    url_bytes_max: int = 2 * 1024
    headers_max: int = 100
    body_bytes_max: int = 64 * 1024
    body_pieces_max: int = 1_024
    request_s_max: float = 14.0
    unread_s_max: float = 14.0
    keep_alive_s_max: float = 10.0
    waiting_max: int = 16
    unread_bytes_max: int = 64 * 1024 * 1024
    pause_s: float = 0.5
    idle_s_min: float = 1.0
    connections_max: int = 2_000
    connections_per_client_max: int = 256
    lingering_max: int = 256

    @property
    def request_bytes_max(self) -> int:
        """What a request may take on the wire: its head, and its body in chunks of any size > 4."""
        return self.head_bytes_max + 2 * self.body_bytes_max


class RefusalWriter(Protocol):
    """Writes what the server itself refuses: statuses 400, 408, 413, 431 and 503."""

    def __call__(
        self, error: ServiceError, *, path: bytes, at: UnixMs, request_id: bytes
    ) -> Response:
        """Return the response that tells *error* to a request for *path*."""
        ...


class Connection(Protocol):
    """An open connection, as those who count it know it."""

    def give_way(self) -> None:
        """Close, so that there is room for another: at once, or after the response under way."""
        ...


@dataclass(slots=True, eq=False)
class Group:
    """Connections that count together: all, those of an address, those of a site.

    incomplete  those whose next request is not whole, by when it was first waited for
    idle        those that were answered, and until when they may stay
    """

    name: str
    count_max: int
    count: int = 0
    incomplete: dict[Connection, None] = field(default_factory=dict)
    idle: dict[Connection, float] = field(default_factory=dict)

    def has_room(self, now_s: float) -> bool:
        """Say whether one more fits; the oldest that waits for its client gives way to it."""
        if self.count < self.count_max:
            return True
        oldest = next(iter(self.incomplete), None)
        if oldest is None:
            oldest, stays_until_s = next(iter(self.idle.items()), (None, 0.0))
            if oldest is None or now_s < stays_until_s:
                return False
        oldest.give_way()
        return True


@dataclass(slots=True, kw_only=True)
class Connections:
    """What all connections of a server share.

    write_refusal   returns the response that tells a refusal, which no route has seen
    turns           in which connections are read that have not paid
    """

    clock: Clock
    write_refusal: RefusalWriter
    bounds: Bounds
    addresses: ClientAddresses
    turns: FairQueue = field(default_factory=FairQueue)
    _groups: dict[str, Group] = field(default_factory=dict)
    _members: dict[Connection, tuple[Group, ...]] = field(default_factory=dict)
    _lingering: set[Connection] = field(default_factory=set)
    _kept: dict[Connection, int] = field(default_factory=dict)  # bytes, by the oldest first
    _kept_bytes: int = 0

    def enter(self, connection: Connection, peer: str) -> bool:
        """Count *connection*; say whether there was room for it.  A proxy may open any number."""
        now_s = self.clock.monotonic_s()
        groups = tuple(self._groups_of(peer))
        if not all(group.has_room(now_s) for group in groups):
            return False
        for group in groups:
            group.count += 1
            self._groups[group.name] = group
        self._members[connection] = groups
        return True

    def leave(self, connection: Connection) -> None:
        """Count the end of *connection*, once."""
        self._lingering.discard(connection)
        self.keep(connection, 0)
        for group in self._members.pop(connection, ()):
            group.incomplete.pop(connection, None)
            group.idle.pop(connection, None)
            group.count -= 1
            if not group.count:
                del self._groups[group.name]

    def is_empty(self) -> bool:
        """Say whether nothing is kept of any connection."""
        return not (self._groups or self._members or self._lingering or self._kept)

    def keep(self, connection: Connection, size: int) -> None:
        """Note that *connection* keeps *size* bytes of what no route has seen yet.

        Those that have kept some for longest give way while all of them keep too much.
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
        """Note that a request of *connection* is awaited, and not whole."""
        for group in self._members.get(connection, ()):
            group.incomplete[connection] = None

    def end_waiting(self, connection: Connection) -> None:
        """Note that the request of *connection* is whole, or is given up."""
        for group in self._members.get(connection, ()):
            group.incomplete.pop(connection, None)

    def begin_idling(self, connection: Connection, *, stays_s: float) -> None:
        """Note that *connection* was answered; it does not give way for *stays_s*."""
        until_s = self.clock.monotonic_s() + stays_s
        for group in self._members.get(connection, ()):
            group.idle[connection] = until_s

    def end_idling(self, connection: Connection) -> None:
        """Note that *connection* has sent something."""
        for group in self._members.get(connection, ()):
            group.idle.pop(connection, None)

    def may_linger(self, connection: Connection) -> bool:
        """Say whether *connection* may stay open until its client has read why it was refused."""
        if len(self._lingering) < self.bounds.lingering_max:
            self._lingering.add(connection)
        return connection in self._lingering

    def refusal(self, error: ServiceError, *, path: bytes) -> bytes:
        """Return the response that tells *error* to a request for *path*, as it is sent."""
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

    def _groups_of(self, peer: str) -> Iterator[Group]:
        """Yield the groups that *peer* counts in, the narrowest first."""
        per_client_max = self.bounds.connections_per_client_max
        if not self.addresses.is_proxy(peer):
            client = network_key(peer)
            yield self._group(client, per_client_max)
            if (site := site_key(client)) != client:
                yield self._group(site, SITE_SHARES * per_client_max)
        yield self._group("", self.bounds.connections_max)

    def _group(self, name: str, count_max: int) -> Group:
        return self._groups.get(name) or Group(name, count_max)
