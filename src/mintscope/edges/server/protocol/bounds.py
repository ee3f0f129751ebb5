"""What a client may take of the server."""

from dataclasses import dataclass


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
