"""The handler of a whole request: the express if it is plain, else the application."""

import asyncio
from typing import Final, TypeVar
from urllib.parse import unquote

import httptools
from typing_extensions import override
from uvicorn._types import HTTPScope

from mintscope.edges.server.protocol.express import ExpressCycle
from mintscope.edges.server.protocol.head import Head
from mintscope.edges.server.protocol.pace import PacedProtocol
from mintscope.edges.server.protocol.whole_response import WholeResponse

PLAIN_METHOD: Final = b"GET"
PLAIN_VERSION: Final = "1.1"
Cycle = TypeVar("Cycle", bound=WholeResponse)


class DispatchingProtocol(PacedProtocol):
    """A connection whose requests are answered in the order in which they came."""

    _express_cycle: ExpressCycle | None = None  # under way

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._express_cycle is not None:
            self._express_cycle.leave()
            self._express_cycle = None
        super().connection_lost(exc)

    def _dispatch(self, head: Head, body: bytearray) -> None:
        """Begin to answer the request that the parser has just read to its end."""
        parser = self.parser
        express = self.open_connections.express
        method = parser.get_method()
        # The parser reads nothing behind an upgrade, and we speak no other protocol.
        stays = head.version != "1.0" and parser.should_keep_alive() and not parser.should_upgrade()
        if (
            express is not None
            and method == PLAIN_METHOD
            and head.version == PLAIN_VERSION
            and stays
            and not body
            and not self.flow.write_paused
            and self._is_idle()
        ):
            cycle = ExpressCycle(self, head)
            before = self.cycle
            self._express_cycle = cycle
            self.cycle = cycle  # type: ignore[assignment]  # it stands for one of uvicorn's
            if express.take(cycle):
                return
            self._express_cycle = None
            self.cycle = before
        scope = self._scope(method.decode("ascii"), head)
        self._start(self._cycle(WholeResponse, scope, body, keep_alive=stays))

    def start_instead(self, cycle: ExpressCycle) -> None:
        """Let the application answer the request of *cycle*, which was first in line."""
        scope = self._scope(PLAIN_METHOD.decode("ascii"), cycle.head)
        ordinary = self._cycle(WholeResponse, scope, bytearray(), keep_alive=cycle.keep_alive)
        ordinary.more_body = False
        ordinary.is_followed_by_end = cycle.is_followed_by_end
        ordinary.disconnected = cycle.disconnected
        newest: object = self.cycle
        if newest is cycle:
            self.cycle = ordinary
        self._express_cycle = None
        cycle.response_complete = True
        self._start_asgi_task(ordinary, self.app)

    def write_express(self, cycle: ExpressCycle, response: bytes) -> None:
        """Write *response*, and go on with the next request."""
        self._express_cycle = None
        cycle.response_complete = True
        self._note_paid()
        self.transport.write(response)
        if not cycle.keep_alive and not cycle.is_followed_by_end:
            self.transport.close()
        self.on_response_complete()

    def is_gone(self) -> bool:
        """Say whether the client has left."""
        return self.transport.is_closing()

    def date_lines(self) -> bytes:
        """Return the header lines that every response of the server begins with."""
        return self.open_connections.lines_of(self.server_state.default_headers)

    def _start(self, cycle: WholeResponse) -> None:
        """Let the application answer *cycle*, once those before it are answered."""
        is_first = self._is_idle()
        self.cycle = cycle
        if is_first:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _cycle(
        self, kind: type[Cycle], scope: HTTPScope, body: bytearray, *, keep_alive: bool
    ) -> Cycle:
        cycle = kind(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.body = body
        cycle.more_body = False
        cycle.message_event.set()
        return cycle

    def _scope(self, method: str, head: Head) -> HTTPScope:
        """Return the ASGI scope of a request, as uvicorn makes it."""
        parsed = httptools.parse_url(head.url)
        path = parsed.path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": head.version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": method,
            "root_path": self.root_path,
            "path": self.root_path + (unquote(path) if "%" in path else path),
            "raw_path": self.root_path.encode("ascii") + parsed.path,
            "query_string": parsed.query or b"",
            "headers": head.headers,
            "state": self.app_state.copy(),
            "extensions": self._extensions,
        }
