"""The body of a response that others write: each chunk goes to the connection at once."""

import socket
from typing import Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

UNREAD_BYTES_MAX: Final = 64 * 1024  # in the kernel, which takes megabytes if it is let


class PushedBody:
    """Implements `server.streams.outlet.Outlet`."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        kept = cycle.transport.get_extra_info("socket")
        if kept is not None and not self.is_gone():
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES_MAX)

    def write(self, chunk: bytes) -> None:
        """Send *chunk*."""
        if not self.is_gone():
            self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def end(self, chunk: bytes) -> None:
        """Send *chunk*, and go on with the next request; or close, if that is asked for."""
        if self.is_gone():
            return
        cycle = self._cycle
        cycle.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunk), chunk))
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive and not getattr(cycle, "is_followed_by_end", False):
            cycle.transport.close()
        cycle.on_response()

    def is_behind(self) -> bool:
        """Say whether the client has yet to read some of what was written."""
        return self._cycle.flow.write_paused

    def is_gone(self) -> bool:
        """Say whether the client has left, or the body was ended."""
        cycle = self._cycle
        if cycle.response_complete or cycle.disconnected:
            return True
        if cycle.transport.is_closing():
            cycle.disconnected = True  # uvicorn reports it to the newest request alone
            cycle.message_event.set()
        return cycle.disconnected

    async def wait_gone(self) -> None:
        """Return once `is_gone`; of a client that leaves without a word it may not be known."""
        while not self.is_gone():
            await self._cycle.message_event.wait()
            self._cycle.message_event.clear()
