"""The socket that clients connect to; a parent may make it for the process that serves."""

import socket
from typing import Final

BACKLOG: Final = 2_048


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that clients can connect to from now on; port 0 takes a free one.

    Raises OSError when the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Inherited by what it accepts: a response of several writes never waits for an acknowledgement.
    # asyncio does that itself only for sockets that name their protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
