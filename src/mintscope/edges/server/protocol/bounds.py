"""Bounds of a client on the server, before any route is asked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a client.

    url_bytes_max                of the address in the request line: a stream of 50 mints fits
    headers_max                  each is worth six times its bytes in memory, and a callback
    body_pieces_max              in which a body arrives: its chunks, or its packets
    waiting_max                  requests of one connection that wait behind the one under way
    unread_bytes_max             of bodies that are not whole and of what is not parsed yet, in all
    pause_s                      no request is read so long after one was refused as one too many
    idle_s_min                   an idle connection gives way to a new one only after so long
    connections_per_client_max   of an IPv4 address or an IPv6 /64; four times as many of a /48
    lingering_max                refused connections that are kept open until the client has read
    message_bytes_max            of a message of a WebSocket, in all its frames
    frames_max                   of a WebSocket between two pings, which are 15 s apart
    first_message_s_max          until a WebSocket without a credential has sent its first message
    """

    head_bytes_max: int = 16 * 1024
    url_bytes_max: int = 2_560
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
    message_bytes_max: int = 4 * 1024
    frames_max: int = 120
    first_message_s_max: float = 10.0

    @property
    def request_bytes_max(self) -> int:
        """The most of a request on the wire: its head, and its body in chunks of any size > 4."""
        return self.head_bytes_max + 2 * self.body_bytes_max
