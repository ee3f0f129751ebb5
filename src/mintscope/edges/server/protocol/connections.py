"""The open connections of a server, counted in all and by client, and what each may take."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from mintscope.base.clock import Clock
from mintscope.base.errors import ServiceError
from mintscope.base.primitives import UnixMs
from mintscope.edges.server.client_address import ClientAddresses, network_key
from mintscope.edges.server.response import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a client may take."""

    head_bytes_max: int = 16 * 1024
    body_bytes_max: int = 64 * 1024
    request_s_max: float = 14.0
    unread_s_max: float = 14.0
    keep_alive_s_max: float = 10.0
    connections_max: int = 2_000
    connections_per_client_max: int = 256

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


@dataclass(slots=True, kw_only=True)
class Connections:
    """What all connections of a server share.

    write_refusal   returns the response that tells a refusal, which no route has seen
    """

    clock: Clock
    write_refusal: RefusalWriter
    bounds: Bounds
    addresses: ClientAddresses
    open_count: int = 0
    open_by_client: Counter[str] = field(default_factory=Counter)

    def enter(self, peer: str) -> bool:
        """Count a connection; say whether there was room for it.  A proxy may open any number."""
        client = network_key(peer)
        self.open_count += 1
        self.open_by_client[client] += 1
        return self.open_count <= self.bounds.connections_max and (
            self.open_by_client[client] <= self.bounds.connections_per_client_max
            or self.addresses.is_proxy(peer)
        )

    def leave(self, peer: str) -> None:
        """Count the end of a connection."""
        client = network_key(peer)
        self.open_count -= 1
        self.open_by_client[client] -= 1
        if not self.open_by_client[client]:
            del self.open_by_client[client]
