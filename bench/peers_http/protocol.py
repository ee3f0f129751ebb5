"""A server that does the least work in Python: it answers after the head of each request.

`python -m bench.peers_http.protocol PORT FOLDER`, where FOLDER has `headers` and `body`. It has no
parser, no limits and no date, so only the event loop and the kernel remain.
"""

import asyncio
import sys
from pathlib import Path
from typing import cast

import uvloop
from typing_extensions import override


class Writes(asyncio.Protocol):
    """An HTTP server without a parser: writes *response* when a request head ends."""

    def __init__(self, response: bytes) -> None:
        self._response = response

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The class of uvloop does not inherit from asyncio.Transport
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n"):
            self._transport.write(self._response)


async def serve(port: int, folder: Path) -> None:
    headers, body = (folder / "headers").read_bytes(), (folder / "body").read_bytes()
    response = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (headers, body)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Writes(response), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
