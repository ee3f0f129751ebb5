"""The listening socket, which a parent process may create for the serving process."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port.

    Raises OSError if it cannot listen there, for example because the address is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # Accepted sockets inherit both options.  asyncio sets TCP_NODELAY only for sockets created with
    # a protocol; without it, a response of several writes waits for an acknowledgement.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES_MAX)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
