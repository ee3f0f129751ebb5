"""The listening socket, which a parent process may create for the serving process."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mintscope.kit.http.response import Bounds

BACKLOG: Final = 2_048
RECEIVED_BYTES_MAX: Final = 16 * 1024  # a connection reads up to 1.5 times as much at once


@contextmanager
def naming_setting(key: str, host_key: str, host: str, port: int) -> Iterator[None]:
    """If the `with` block raises an OSError, raise one that also names the setting to change.

    key, host_key   the settings of *port* and of *host*
    """
    try:
        yield
    except OSError as cause:
        is_unknown = isinstance(cause, socket.gaierror)  # its number is no errno value
        number = None if is_unknown else cause.errno
        reason = cause.strerror or str(cause) if number is None else os.strerror(number)
        fix = f"set {key} to another port"
        if cause.errno == errno.EADDRINUSE:
            fix = f"stop the program that listens there, perhaps another mintscope, or {fix}"
        elif is_unknown or cause.errno == errno.EADDRNOTAVAIL:
            fix = f"{host} is no address of this machine: set {host_key}"
        raise OSError(f"cannot listen on {host} port {port}: {reason}: {fix}") from cause


# With these options, a connection whose client has vanished is lost within about 20 s.
PROBES: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}
MARGIN_S: Final = 6.0  # after the time limit for unread data, which the connection itself observes


def listen(host: str, port: int, *, unread_s_max: float = Bounds().unread_s_max) -> socket.socket:
    """Return a listening socket; port 0 selects a free port.

    A connection whose client does not acknowledge data for *unread_s_max* and MARGIN_S is lost.

    Raises OSError if it cannot listen there, for example because the address is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Accepted sockets inherit all options.  asyncio sets TCP_NODELAY only for sockets created with
    # a protocol; without it, a response of several writes waits for an acknowledgement.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES_MAX)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    unsent_ms = int((unread_s_max + MARGIN_S) * 1_000)
    for name, value in {**PROBES, "TCP_USER_TIMEOUT": unsent_ms}.items():
        if hasattr(socket, name):  # some platforms have only some of these options
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listener
