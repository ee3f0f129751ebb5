"""A server on the loopback address that answers every request with bytes from the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress

Body = Callable[[], Iterable[bytes]]


@asynccontextmanager
async def raw_server(written: bytes | Body, *, says_first: bool = False) -> AsyncIterator[str]:
    """Send *written*, bytes or a function that yields pieces, to each client; yield the address.

    says_first    whether the server sends before the client does, as a mail server does
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if not says_first:
                await reader.readuntil(b"\r\n\r\n")
            for piece in [written] if isinstance(written, bytes) else written():
                writer.write(piece)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}/"
    finally:
        server.close()


def whole(body: bytes, *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body
