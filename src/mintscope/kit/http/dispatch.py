"""Dispatch of complete requests, and the order in which connections are read."""

import asyncio
from abc import abstractmethod
from collections import deque
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import httptools
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import Scope
from typing_extensions import override
from uvicorn import Config
from uvicorn.server import ServerState

from mintscope.kit.http.connections import Connections, FastPathCycle
from mintscope.kit.http.request import GONE, HAS_PAID, NOWHERE, SLOW_DOWN
from mintscope.kit.http.response import Head, Header
from mintscope.kit.http.whole_response import Flow, WholeResponse


class PacedProtocol(asyncio.Protocol):
    """An HTTP connection that pauses after its client has exceeded a rate limit.

    In each iteration of the event loop, only one connection is read, except that connections on
    which a client has paid are read at once.

    A `uvicorn.Server` creates the connection, and closes it when the server stops.
    """

    open_connections: Connections
    transport: asyncio.Transport
    flow: Flow

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002 - of a lifespan, and we have none
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.app = config.loaded_app
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self.parser = HttpRequestParser(self)
        # Data after a request that closes the connection is ignored instead of refused.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.url = b""
        self.headers: list[Header] = []
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None
        self.pipeline: deque[WholeResponse] = deque()  # requests behind an open response
        self.cycle: WholeResponse | FastPathCycle | None = None  # the newest; None at first
        self._bounds = self.open_connections.bounds
        self._is_slowed = False
        self._is_pausing = False
        self._held = b""  # received before the pause, and read after it
        self._has_paid = False
        self._refused = False
        self._keeps = 0
        self._whole = True  # no request is incomplete
        self._extensions: dict[str, Any] = {}

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else NOWHERE

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._served().add(self)
        self.transport = transport
        self.flow = Flow(transport)
        self.client = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))
        self._extensions = {
            GONE: transport.is_closing,
            HAS_PAID: self._note_paid,
            SLOW_DOWN: self._slow_down,
        }

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._served().discard(self)
        cycle = self.cycle
        if cycle is not None:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        if exc is None:
            self.transport.close()
        # Break reference cycles: the garbage collection of many connections took 100 ms.
        del self.parser
        self.pipeline.clear()
        self._extensions.clear()
        # Requests that are still running may ask whether their client has left.
        self._extensions[GONE] = _is_gone
        self.cycle = None

    @override
    def pause_writing(self) -> None:
        self.flow.pause_writing()

    @override
    def resume_writing(self) -> None:
        self.flow.resume_writing()

    def shutdown(self) -> None:
        """Close the connection after its started responses, because the server stops."""
        if self.cycle is None or self._is_idle():
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    @abstractmethod
    def _refuse_unreadable(self) -> None:
        """Refuse a request that is no valid HTTP, or that exceeds a limit."""

    @override
    def data_received(self, data: bytes) -> None:
        if not self._read_or_queue(data):
            self._keep(self._keeps + len(data))

    def _read_or_queue(self, data: bytes) -> bool:
        """Parse *data* if no other connection was read in this iteration, and return True.

        Otherwise, queue it and return False.  Connections on which clients have paid need not wait.
        """
        if self._has_paid or self.open_connections.queue.take():
            self._read(data)
            return True
        self.flow.pause_reading()
        self.open_connections.queue.wait(partial(self._read_queued, data))
        return False

    def _read(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._read_behind_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            self._refuse_unreadable()

    def _read_behind_upgrade(self, data: bytes) -> None:
        """Read *data*, received after an upgrade; do nothing if the upgrade was not accepted."""

    def _read_queued(self, data: bytes) -> bool:
        if self.transport.is_closing():
            return False
        # The data arrived before the pause, and must not skip it.
        if self._is_pausing:
            self._held += data
            return False
        self.flow.resume_reading()
        self._read(data)
        return True

    def on_response_complete(self) -> None:
        """Start the answer to the next request; pause first if the client exceeded a rate limit."""
        if self._is_slowed and not self.transport.is_closing():
            self._is_slowed = False
            self._is_pausing = True
            self.flow.pause_reading()
            if self._is_idle():
                # Others may take its place, or pausing clients could occupy all connections.
                self.open_connections.begin_idling(self, stays_s=0)
            self.loop.call_later(self._bounds.pause_s, self._go_on_after_pause)
        else:
            self._go_on()

    @abstractmethod
    def give_way(self) -> None:
        """Close the connection to make room for another one, after its started responses."""

    def _go_on_after_pause(self) -> None:
        held = self._held
        self._is_pausing = False
        self._held = b""
        self.open_connections.end_idling(self)
        self._go_on()
        if held and not self.transport.is_closing():
            self._read_or_queue(held)

    def _go_on(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_task(self.pipeline.popleft())
        if not self.pipeline:  # read no more while requests wait
            self.flow.resume_reading()
        if not self._is_idle():
            return
        if self._whole:
            self.open_connections.begin_resting(self)
        else:
            self.open_connections.begin_waiting(self)

    def _start_task(self, cycle: WholeResponse) -> None:
        """Start the task in which the application answers the request of *cycle*."""
        tasks = self.server_state.tasks
        task = self.loop.create_task(cycle.run(self.app))
        task.add_done_callback(tasks.discard)
        tasks.add(task)

    def _served(self) -> set[Any]:
        """Return the connections of the uvicorn server, which it closes when it stops."""
        return self.server_state.connections

    def _keep(self, size: int) -> None:
        """Record that the connection holds *size* bytes of an incomplete or unread request."""
        if size != self._keeps:
            self._keeps = size
            self.open_connections.keep(self, size)

    def _note_paid(self) -> None:
        self._has_paid = True

    def _slow_down(self) -> None:
        self._has_paid = False
        # A proxy's connection also carries requests of other clients.
        self._is_slowed = not self.open_connections.addresses.is_proxy(self._peer)

    def _is_idle(self) -> bool:
        """Return whether no response is in progress."""
        return self.cycle is None or self.cycle.response_complete


def _is_gone() -> bool:
    return True


def _address(name: object) -> tuple[str, int] | None:
    """Return host and port of *name*, a socket address; None for an address without them."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None


PLAIN_METHOD: Final = b"GET"
PLAIN_VERSION: Final = "1.1"
Cycle = TypeVar("Cycle", bound=WholeResponse)


class DispatchingProtocol(PacedProtocol):
    """A connection that answers requests in their order of arrival."""

    _fast_path_cycle: FastPathCycle | None = None  # the request that the fast path is answering

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._fast_path_cycle is not None:
            self._fast_path_cycle.leave()
            self._fast_path_cycle = None
        super().connection_lost(exc)

    def _dispatch(self, head: Head, body: bytearray) -> None:
        """Answer the request that has arrived: on the fast path, or else by the application."""
        parser = self.parser
        fast_path = self.open_connections.fast_path
        method = parser.get_method()
        # At an upgrade the parser stops, so the connection must be closed after the response.
        stays = head.version != "1.0" and parser.should_keep_alive() and not parser.should_upgrade()
        if (
            fast_path is not None
            and method == PLAIN_METHOD
            and head.version == PLAIN_VERSION
            and stays
            and not body
            and not self.flow.write_paused  # the fast path does not wait for the client to read
            and self._is_idle()
        ):
            cycle = FastPathCycle(self, head)
            before = self.cycle
            self._fast_path_cycle = cycle
            self.cycle = cycle
            if fast_path.take(cycle):
                return
            self._fast_path_cycle = None
            self.cycle = before
        scope = self._scope(method.decode("ascii"), head)
        self._start(self._cycle(WholeResponse, scope, body, keep_alive=stays))

    def start_instead(self, cycle: FastPathCycle) -> None:
        """Answer the request of *cycle* by the application, because the fast path has given it up.

        No other request of the connection is being answered.
        """
        scope = self._scope(PLAIN_METHOD.decode("ascii"), cycle.head)
        ordinary = self._cycle(WholeResponse, scope, bytearray(), keep_alive=cycle.keep_alive)
        ordinary.is_followed_by_end = cycle.is_followed_by_end
        ordinary.disconnected = cycle.disconnected
        # A later request may be the newest by now, and waits in the pipeline.
        if self.cycle is cycle:
            self.cycle = ordinary
        self._fast_path_cycle = None
        cycle.response_complete = True
        self._start_task(ordinary)

    def write_fast_path(self, cycle: FastPathCycle, response: bytes) -> None:
        """Write *response*, the answer to *cycle*, and start the next request."""
        self._fast_path_cycle = None
        cycle.response_complete = True
        self._note_paid()
        self.transport.write(response)
        if not cycle.keep_alive and not cycle.is_followed_by_end:
            self.transport.close()
        self.on_response_complete()

    def is_gone(self) -> bool:
        """Return whether the client has left."""
        return self.transport.is_closing()

    def date_lines(self) -> bytes:
        """Return the header lines that the server adds to every response, such as Date."""
        return self.open_connections.lines_of(self.server_state.default_headers)

    def _start(self, cycle: WholeResponse) -> None:
        """Start the answer to the request of *cycle* once all earlier requests are answered."""
        is_first = self._is_idle()
        self.cycle = cycle
        if is_first:
            self._start_task(cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.append(cycle)

    def _cycle(
        self, kind: type[Cycle], scope: Scope, body: bytearray, *, keep_alive: bool
    ) -> Cycle:
        return kind(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            default_headers=self.server_state.default_headers,
            body=body,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )

    def _scope(self, method: str, head: Head) -> Scope:
        parsed = httptools.parse_url(head.url)
        path = parsed.path.decode("ascii")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.version,
            "server": self.server,
            "client": self.client,
            "scheme": "http",
            "method": method,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": parsed.path,
            "query_string": parsed.query or b"",
            "headers": head.headers,
            "state": {},
            "extensions": self._extensions,
        }
