"""A node that relays the answers of another node, or answers garbage, or does not answer."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Literal
from urllib.parse import urlsplit

from typing_extensions import override

Mood = Literal["well", "garbage", "hang"]
GARBAGE: Final = (
    b"",
    b"\xff\xfe\x00",
    b"<html>busy</html>",
    b'{"jsonrpc":"2.0","id":1,"result":\xff}',
    b'{"jsonrpc":"2.0","id":1,"result":{"value":[null,1e999,"\xc3"',
    b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000,
    b"[]",
)
HANG_S: Final = 60.0
TIMEOUT_S: Final = 10.0


class TroubledNode:
    """A proxy in front of a node; `mood` decides if it relays, garbles or withholds answers."""

    def __init__(self) -> None:
        self.url = ""
        self.mood: Mood = "well"
        self.closing = threading.Event()
        self._address = ""
        self._reported = 0

    def stand_before(self, url: str) -> str:
        """Forward requests to the node at *url* from now on; return the URL of this proxy."""
        self._address = urlsplit(url).netloc
        return self.url

    def answer(self, path: str, body: bytes) -> bytes | None:
        """Return the body of the answer to the request *body*; None: send no answer."""
        if self.mood == "hang":
            self.closing.wait(HANG_S)
            return None
        if self.mood == "garbage":
            self._reported += 1
            return GARBAGE[self._reported % len(GARBAGE)]
        with closing(HTTPConnection(self._address, timeout=TIMEOUT_S)) as connection:
            connection.request("POST", path, body, {"content-type": "application/json"})
            return connection.getresponse().read()


@contextmanager
def troubled_node() -> Iterator[TroubledNode]:
    """Run a TroubledNode on a free port, in threads of this process."""
    node = TroubledNode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            answer = node.answer(self.path, self.rfile.read(length))
            if answer is None:
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    class Listener(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        @override
        def handle_error(self, request: object, client_address: object) -> None:
            """Print nothing: clients may disconnect."""

    with Listener(("127.0.0.1", 0), Handler) as server:
        node.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield node
        finally:
            node.closing.set()
            server.shutdown()
            thread.join()
