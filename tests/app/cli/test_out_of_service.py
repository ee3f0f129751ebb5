"""`OutOfService` answers clients while the process that serves them does not run."""

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from mintscope.app.running.serve import LINGERING_MAX, WAITING_MAX, OutOfService
from mintscope.kit.http.listening import listen

PAYING: Final = b"POST /v1/credits/purchase HTTP/1.1\r\nHost: x\r\nPAYMENT-SIGNATURE: e30=\r\n\r\n"
LOOKS: Final = 8


def asked(listener: socket.socket, *, sent: bytes = PAYING) -> socket.socket:
    client = socket.create_connection(listener.getsockname())
    client.settimeout(5.0)
    client.sendall(sent)
    return client


def test_a_payer_gets_a_503_that_charged_nothing_and_says_not_to_pay_again() -> None:
    """The process that has ended may have sent the payment to the chain."""
    with listen("127.0.0.1", 0) as listener, asked(listener) as client:
        out_of_service = OutOfService(listener)
        out_of_service.answer()
        head, _, body = client.recv(65_536).partition(b"\r\n\r\n")
        out_of_service.close()

    message = msgspec.json.decode(body)["error"]["message"]
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: " in head
    assert "This request charged nothing" in message
    assert "do not pay again" in message


def test_a_flood_of_clients_keeps_a_bounded_number_of_connections_open() -> None:
    with listen("127.0.0.1", 0) as listener, ExitStack() as clients:
        out_of_service, before = OutOfService(listener), open_files()
        for look in range(1, LOOKS + 1):
            for _ in range(WAITING_MAX):
                clients.enter_context(asked(listener, sent=b""))
            out_of_service.answer()
            # Without the sockets of the clients, which are open in this process, too.
            kept = open_files() - before - look * WAITING_MAX
            assert kept <= LINGERING_MAX
        out_of_service.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
