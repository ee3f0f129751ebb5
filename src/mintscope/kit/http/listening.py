"""The socket that clients connect to; a parent may create it for the serving process."""

import socket
from typing import Final

BACKLOG: Final = 2_048
RECEIVED_BYTES_MAX: Final = 16 * 1024  # half as much again is read at once, by each connection


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port.

    Raises OSError when the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Both are inherited by what it accepts.  A response of several writes never waits for an
    # acknowledgement: asyncio sees to that only for sockets that name their protocol.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES_MAX)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
