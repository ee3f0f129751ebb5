"""Answers on a listening socket while the process that serves it does not run."""

import select
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Final

import msgspec

from mintscope.base.clock import SystemClock
from mintscope.base.errors import ErrorCode
from mintscope.base.primitives import UnixMs
from mintscope.base.time import iso_time_ms

WAITING_MAX: Final = 64  # answered at each look, so that the parent looks at its children between
LINGERING_MAX: Final = 256
LINGER_S: Final = 1.0  # for a client to read the answer before its connection is closed
READ_BYTES_MAX: Final = 64 * 1024
RETRY_AFTER_S: Final = 5
# A payment may have been sent by an earlier request: of that nothing is known here.
MESSAGE: Final = (
    "The service cannot start; it is tried again. This request charged nothing. If it carries a"
    " payment, do not pay again: send the same payment again, with the same Idempotency-Key."
)


class OutOfService:
    """Answers 503 SERVICE_UNAVAILABLE to who connects to *listener*, whatever is asked.

    It keeps at most 256 connections, each for a second, and waits for none of them.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._answered: deque[tuple[float, socket.socket]] = deque()

    def answer(self) -> None:
        """Answer those who have connected."""
        for _ in range(WAITING_MAX):
            if not select.select([self._listener], [], [], 0)[0]:
                return
            with suppress(OSError):  # it has left again, or there is no file left for it
                client, _ = self._listener.accept()
                self._tell(client)
        self.close(older_than_s=LINGER_S)

    def close(self, *, older_than_s: float = 0.0) -> None:
        """Close the connections that were answered *older_than_s* seconds ago."""
        until_s = time.monotonic() - older_than_s
        while self._answered and (
            self._answered[0][0] <= until_s or len(self._answered) > LINGERING_MAX
        ):
            _, client = self._answered.popleft()
            with suppress(OSError):  # what is unread at the close would take the answer back
                client.recv(READ_BYTES_MAX)
            client.close()

    def _tell(self, client: socket.socket) -> None:
        client.settimeout(0.0)
        self._answered.append((time.monotonic(), client))
        with suppress(BlockingIOError):  # its request is still on the way
            client.recv(READ_BYTES_MAX)
        client.send(_response(SystemClock().now()))
        client.shutdown(socket.SHUT_WR)


def _response(now: UnixMs) -> bytes:
    body = msgspec.json.encode(
        {
            "success": False,
            "error": {
                "code": ErrorCode.SERVICE_UNAVAILABLE,
                "message": MESSAGE,
            },
            "meta": {"timestamp": iso_time_ms(now)},
        }
    )
    head = (
        "HTTP/1.1 503 Service Unavailable\r\n"
        "Content-Type: application/json\r\n"
        "Cache-Control: no-store\r\n"
        f"Retry-After: {RETRY_AFTER_S}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
