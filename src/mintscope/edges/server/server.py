"""Running an application: one uvicorn server on one socket."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from mintscope.base.clock import Clock
from mintscope.edges.server.client_address import ClientAddresses
from mintscope.edges.server.draining import Draining
from mintscope.edges.server.protocol.bounds import Bounds
from mintscope.edges.server.protocol.connection import protocol_of
from mintscope.edges.server.protocol.connections import Connections, RefusalWriter
from mintscope.edges.server.protocol.express import Express

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
GRACE_S: Final = 10  # for responses under way when the server is asked to stop
TURN_S: Final = 0.1  # uvicorn counts ten to a second
TURNS_OF_A_DAY: Final = 864_000


class Server(uvicorn.Server):
    """A uvicorn server that ends quietly: uvicorn's own dies of the signal that stopped it."""

    obeys_signals = True
    stopped_by: int | None = None  # the signal that stopped it, if one did

    def __init__(self, config: uvicorn.Config, draining: Draining | None = None) -> None:
        super().__init__(config)
        self.draining = draining or Draining()
        self._is_told = asyncio.Event()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, after the time that is left to balancers; at the second signal at once."""
        self.stopped_by = sig
        stop = partial(self._obey, sig, frame)
        if self.draining.lasts_s == 0 or self.draining.has_begun:
            stop()
            return
        self.draining.has_begun = True
        self.draining.at_begin()
        asyncio.get_running_loop().call_later(self.draining.lasts_s, stop)

    def stop(self) -> None:
        """Stop without a signal."""
        self.should_exit = True
        self._is_told.set()

    def _obey(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._is_told.set()

    @override
    async def main_loop(self) -> None:
        """Do the work of ten times a second, until it is asked to stop; then at once."""
        turn_count = 0
        while not await self.on_tick(turn_count % TURNS_OF_A_DAY):
            turn_count += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_told.wait(), TURN_S)

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and wait for responses under way, if there are any."""
        self.draining.at_end()
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for listening in (*self.servers, *(sockets or ())):
            listening.close()

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM; a second SIGINT does not wait for open responses."""
        if not self.obeys_signals:
            yield
            return
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)


def make_server(  # noqa: PLR0913 - one argument for each part
    app: ASGIApp,
    *,
    clock: Clock,
    addresses: ClientAddresses,
    bounds: Bounds,
    write_refusal: RefusalWriter,
    express: Express | None = None,
    websocket_paths: Collection[bytes] = (),
    draining: Draining | None = None,
) -> Server:
    """Return a server for *app*; `await server.serve(sockets=[listen(...)])` runs it.

    It ends on SIGINT and SIGTERM, or by `stop()`, once responses under way are sent.

    write_refusal   returns what is sent where no route has seen the request
    express         answers plain requests before *app* is asked
    websocket_paths where a connection may become a WebSocket
    draining        begins when it is asked to stop; None: it stops at once
    """
    connections = Connections(
        clock=clock,
        write_refusal=write_refusal,
        addresses=addresses,
        bounds=bounds,
        express=express,
        websocket_paths=websocket_paths,
    )
    return Server(
        uvicorn.Config(
            app,
            http=protocol_of(connections),
            ws="none",
            lifespan="off",
            proxy_headers=False,  # `ClientAddresses` decides which headers to believe
            server_header=False,
            access_log=False,
            log_config=None,
            log_level="error",
            timeout_graceful_shutdown=GRACE_S,
        ),
        draining,
    )


@asynccontextmanager
async def serving_beside(server: Server, listener: socket.socket) -> AsyncIterator[None]:
    """Run *server* while the block runs; signals stop the block, not this server."""
    server.obeys_signals = False
    task = asyncio.create_task(server.serve(sockets=[listener]), name="serve beside")
    try:
        yield
    finally:
        server.stop()
        await task
