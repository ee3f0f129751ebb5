"""Serves a devchain over JSON-RPC and gRPC, and adds its blocks in real time."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from mintscope.kit.clock import Clock
from mintscope_devchain.chain import Devchain

KEEP_ALIVE_S = 30
STOP_S = 3


async def serve(
    chain: Devchain,
    clock: Clock,
    listener: socket.socket,
    *,
    slot_s: float,
    grpc_address: str | None = None,
) -> None:
    """Serve *chain* on *listener* and add blocks to it, until the process gets a signal to end.

    slot_s         seconds from one slot to the next; skipped slots get no block
    grpc_address   `host:port` of the gRPC stream; None: there is no stream
    """
    chain.vm.clock = clock
    server = uvicorn.Server(
        uvicorn.Config(
            chain.app,
            log_level="warning",
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
        )
    )
    async with _streaming(chain, grpc_address), asyncio.TaskGroup() as tasks:
        producer = tasks.create_task(_produce(chain, clock, slot_s))
        await server.serve(sockets=[listener])
        producer.cancel()


@asynccontextmanager
async def _streaming(chain: Devchain, address: str | None) -> AsyncIterator[None]:
    """In the `with` block, serve *chain* as a gRPC stream at *address*; None: do nothing."""
    if address is None:
        yield
        return
    # This import is not at the top because grpcio and protobuf are an optional extra.
    from mintscope_devchain.stream.service import GeyserServer  # noqa: PLC0415 - see above

    stream = GeyserServer(chain, chain.vm.faults)
    await stream.start(address)
    try:
        yield
    finally:
        await stream.stop()


async def _produce(chain: Devchain, clock: Clock, slot_s: float) -> None:
    due = clock.monotonic_s()
    before = chain.blockstore.tip
    slots = 1
    while True:
        # A skipped slot takes as long as a slot with a block.  After a delay, the blocks that are
        # missing are not made in a burst.
        due = max(due + slots * slot_s, clock.monotonic_s())
        await asyncio.sleep(due - clock.monotonic_s())
        slots = chain.tick(clock.now()) - before
        before = chain.blockstore.tip
