"""When a connection is read: in its turn, not while requests wait, and after a pause."""

import asyncio
from abc import abstractmethod
from functools import partial
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade
from typing_extensions import override
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from mintscope.edges.server.client_address import NOWHERE
from mintscope.edges.server.protocol.connections import Connections
from mintscope.edges.server.request import GONE, HAS_PAID, SLOW_DOWN


class PacedProtocol(HttpToolsProtocol):
    """A connection that is read no faster than its client may ask.

    One connection is read in each turn of the event loop, and at once those whose last request was
    paid for: so many others never stand before a client that pays.
    """

    open_connections: Connections

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds = self.open_connections.bounds
        self._is_slowed = False
        self._has_paid = False
        self._refused = False
        self._keeps = 0
        self._whole = True  # no request has begun that has not ended
        self._extensions: dict[str, Any] = {}

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else NOWHERE

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._extensions = {
            GONE: transport.is_closing,
            HAS_PAID: self._note_paid,
            SLOW_DOWN: self._slow_down,
        }

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # Cycles through this connection are not left to the garbage collector: after a
        # flood of connections it stopped the loop for 100 ms.
        self.pipeline.clear()
        self._extensions.clear()
        self._extensions[GONE] = _is_gone
        self.cycle = self.scope = None  # type: ignore[assignment]  # uvicorn forgets the None

    @override
    def data_received(self, data: bytes) -> None:
        if self._has_paid or self.open_connections.turns.take():
            self._read(data)
        else:
            self.flow.pause_reading()
            self.open_connections.turns.wait(partial(self._read_in_turn, data))
            self._keep(self._keeps + len(data))

    def _read(self, data: bytes) -> None:
        """Parse *data*."""
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._read_behind_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            self.send_400_response(str(error))

    def _read_behind_upgrade(self, data: bytes) -> None:
        """Read what follows an upgrade: another protocol's, so nothing if we speak none."""

    def _read_in_turn(self, data: bytes) -> bool:
        if self.transport.is_closing():
            return False
        self.flow.resume_reading()
        self._read(data)
        return True

    @override
    def on_response_complete(self) -> None:
        """Go on with the next request: at once, or after a pause if the client asks too often."""
        if self._is_slowed and not self.transport.is_closing():
            self._is_slowed = False
            self.flow.pause_reading()
            self.open_connections.begin_idling(self, stays_s=0)
            self.loop.call_later(self._bounds.pause_s, self._go_on_after_pause)
        else:
            self._go_on()

    @abstractmethod
    def give_way(self) -> None:
        """Close, so that there is room for another connection."""

    def _go_on_after_pause(self) -> None:
        self.open_connections.end_idling(self)
        self._go_on()

    def _go_on(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        if not self.pipeline:  # those that wait come first
            self.flow.resume_reading()
        if not self._is_idle():
            return
        if self._whole:
            self.open_connections.begin_resting(self)
        else:
            self.open_connections.begin_waiting(self)

    def _keep(self, size: int) -> None:
        """Note that *size* bytes are kept of what no route has seen yet."""
        if size != self._keeps:
            self._keeps = size
            self.open_connections.keep(self, size)

    def _note_paid(self) -> None:
        self._has_paid = True

    def _slow_down(self) -> None:
        self._has_paid = False
        # A proxy's connection carries the requests of others as well.
        self._is_slowed = not self.open_connections.addresses.is_proxy(self._peer)

    def _is_idle(self) -> bool:
        """Say whether no response is under way."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's own type forgets the None
        return cycle is None or cycle.response_complete


def _is_gone() -> bool:
    return True
