"""The socket that clients connect to: the parent of the api makes it, or the api itself."""

from socket import socket

from mintscope.edges.server.protocol.listening import listen
from mintscope.shell.config.sections import ApiConfig


def bind(api: ApiConfig) -> socket:
    """Return the socket that clients connect to.  Raises OSError for an address in use."""
    return listen(api.host, api.port)
