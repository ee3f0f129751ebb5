"""Runs a devchain with a trading market, which records when each block was confirmed.

`python -m bench.market PORT`
"""

import asyncio
import sys
import time
from collections.abc import Sequence

import uvloop
from typing_extensions import override

from bench.peers_payments.moments import SEED, server
from mintscope.kit.clock import SystemClock
from mintscope_devchain.blockstore import SLOT_MS
from mintscope_devchain.chain import Devchain
from mintscope_devchain.methods.table import Methods
from mintscope_devchain.server import answering

HISTORY_DAYS = 1


class Watched(Methods):
    """The JSON-RPC methods of a devchain, which also records when each block is confirmed."""

    def __init__(self, chain: Devchain) -> None:
        super().__init__(chain.vm, chain)
        self._blockstore = chain.blockstore
        self._confirmed: dict[int, float] = {}

    def watch(self) -> None:
        """Record the current time for the newest confirmed block, if it is new."""
        slot = self._blockstore.reached("confirmed")
        self._confirmed.setdefault(slot, time.monotonic())

    @override
    def call(self, method: str, params: Sequence[object]) -> object:
        if method == "bench_confirmed":
            return self._confirmed
        return super().call(method, params)


async def serve(port: int) -> None:
    clock = SystemClock()
    chain = Devchain(seed=SEED, now=clock.now(), history_days=HISTORY_DAYS)
    chain.vm.clock = clock
    methods = Watched(chain)
    beating = asyncio.create_task(_beat(chain, methods))
    await server(answering(methods, chain.vm.faults), port)
    beating.cancel()


async def _beat(chain: Devchain, methods: Watched) -> None:
    while True:
        await asyncio.sleep(SLOT_MS / 1_000)
        chain.tick(SystemClock().now())
        methods.watch()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
