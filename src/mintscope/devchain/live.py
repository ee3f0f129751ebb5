"""Runs the chain by the clock: its server, and a block every slot."""

import asyncio
import socket

import uvicorn

from mintscope.base.clock import Clock
from mintscope.devchain.chain import Devchain

KEEP_ALIVE_S = 30
STOP_S = 3


async def serve(chain: Devchain, clock: Clock, listener: socket.socket, *, slot_s: float) -> None:
    """Serve *chain* on *listener* until a signal, adding a block every *slot_s* seconds."""
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
    async with asyncio.TaskGroup() as tasks:
        producer = tasks.create_task(_produce(chain, clock, slot_s))
        await server.serve(sockets=[listener])
        producer.cancel()


async def _produce(chain: Devchain, clock: Clock, slot_s: float) -> None:
    due = clock.monotonic_s()
    while True:
        due = max(due + slot_s, clock.monotonic_s())
        await asyncio.sleep(due - clock.monotonic_s())
        chain.tick(clock.now())
