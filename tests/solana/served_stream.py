"""A devchain that serves its blocks by gRPC, with faults on request, and by JSON-RPC."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, get_args

import httpx

from mintscope.dex.token_accounts import SPL, SPL_2022
from mintscope.kit.clock import SystemClock
from mintscope.solana.blocks import Endpoint
from mintscope.solana.poll import Polling
from mintscope.solana.rpc import Rpc
from mintscope.solana.yellowstone.stream import GeyserEndpoint, GeyserSource
from mintscope_devchain.blockstore import FINALITY_MS
from mintscope_devchain.chain import Devchain
from mintscope_devchain.faults import Knobs, StreamFault, Streaming
from mintscope_devchain.stream.service import GeyserServer
from support.oracles.devchain_blocks import NOW

FIRST: Final = Polling(start="first", poll_interval_ms=10)
WATCHDOG_S: Final = 0.3
KINDS: Final[Sequence[StreamFault]] = get_args(StreamFault)
TOKEN: Final = "a key"


def new_chain(finality_ms: int = FINALITY_MS) -> Devchain:
    return Devchain(seed=3, now=NOW, mints=5, history_days=0, finality_ms=finality_ms)


@dataclass
class Served:
    chain: Devchain
    rpc: Rpc
    endpoint: GeyserEndpoint

    def source(self, *endpoints: GeyserEndpoint) -> GeyserSource:
        return GeyserSource(
            endpoints or [self.endpoint],
            [SPL, SPL_2022],
            self.rpc,
            FIRST,
            clock=SystemClock(),
            watchdog_s=WATCHDOG_S,
        )

    def spoil(self, kind: StreamFault, times: int | None = 1) -> None:
        self.chain.vm.faults.set(Knobs(stream=Streaming(kind, times)))


@asynccontextmanager
async def served(
    *,
    host: str = "127.0.0.1",
    addresses_max: int = 100,
    names_banks: bool = True,
    finality_ms: int = FINALITY_MS,
) -> AsyncGenerator[Served, None]:
    chain = new_chain(finality_ms)
    server = GeyserServer(
        chain,
        chain.vm.faults,
        addresses_max=addresses_max,
        x_token=TOKEN,
        names_banks=names_banks,
    )
    await server.start(f"{host}:0")
    transport = httpx.ASGITransport(app=chain.app)
    try:
        async with Rpc(
            Endpoint(url="http://node"), clock=SystemClock(), transport=transport
        ) as rpc:
            endpoint = GeyserEndpoint(url=f"http://{host}:{server.port}", x_token=TOKEN)
            yield Served(chain, rpc, endpoint)
    finally:
        await server.stop()
