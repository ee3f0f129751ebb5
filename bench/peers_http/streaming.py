"""Runs mintscope's API with one mint that trades once a second, to measure event streams.

`python -m bench.peers_http.streaming PORT FOLDER`: the price of a trade is the monotonic time at
which it reached the log, so that a client on the same machine can measure the age of an update.
"""

import asyncio
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import uvloop

from mintscope.api.events import Streams
from mintscope.app.api import create_server
from mintscope.app.config.config import ApiConfig
from mintscope.app.config.groups import Config, StreamsConfig
from mintscope.app.following import stream_bounds
from mintscope.app.running.logging import configure_logging
from mintscope.app.stores.stores import open_money
from mintscope.app.web_api import create_api
from mintscope.kit.clock import SystemClock
from mintscope.kit.http.listening import listen
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.machine import freeze_startup_objects
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.broadcaster import Broadcaster
from mintscope.market.follow.tailer import LogTailer
from mintscope.market.log import (
    Appended,
    Event,
    LoadedMint,
    LogTip,
    PricedSwap,
    SlotHeader,
    TailSwap,
    Tracked,
)
from mintscope.solana.blocks import WSOL

MINT: Final = Mint(WSOL)
MINUTES: Final = 210  # enough minutes of history for a value of every average
EVERY_S: Final = 1.0
MANY: Final = 100_000


class OneMintLog:
    """A swap log in memory, in which one mint has traded every minute."""

    def __init__(self, now_s: int) -> None:
        self._events: list[Event] = [Tracked(1, MINT)]
        for minute in range(MINUTES):
            self.trade(now_s - 60 * (MINUTES - minute), 1.0 + minute % 7)

    def trade(self, at_s: int, price: float) -> None:
        seq = len(self._events) + 1
        header = SlotHeader(Slot(seq), Slot(seq - 1), str(seq), UnixS(at_s))
        swap = PricedSwap(MINT, 0, 0, -1, 0, seq % 2 == 0, 10**6, price, price / 150)
        self._events.append(Appended(seq, header, (swap,)))

    async def tip(self) -> LogTip:
        newest = self._events[-1]
        assert isinstance(newest, Appended)
        slot, time_s = newest.header.slot, newest.header.time
        return LogTip(seq=newest.seq, slot=slot, time=time_s, follows_files=False)

    async def events(self, after_seq: int, limit: int) -> Sequence[Event]:
        return self._events[after_seq : after_seq + limit]

    async def tracked(self) -> tuple[int, frozenset[Mint]]:
        return len(self._events), frozenset({MINT})

    async def seconds(self, span_s: int) -> Sequence[tuple[Slot, UnixS]]:
        del span_s
        return ()

    async def load(self, mint: Mint, timeframes: Collection[str] = ()) -> LoadedMint | None:
        assert not timeframes, "expected the frames of the specification"
        appended = [event for event in self._events if isinstance(event, Appended)]
        tail = [
            TailSwap(event.header.slot, event.header.time, folded=False, swap=event.swaps[0])
            for event in appended
        ]
        seq = len(self._events)
        return LoadedMint(mint=mint, seq=seq, state=None, candles={}, minutes=(), tail=tail)


async def serve(port: int, folder: Path) -> None:
    configure_logging("error", json_lines=True)
    clock = SystemClock()
    api = ApiConfig(rate_limit_requests=MANY, connections_max=MANY, connections_per_client_max=MANY)
    streams_config = StreamsConfig(open_max=MANY, per_account_max=MANY)
    config = Config(data_dir=folder, api=api, streams=streams_config)
    log = OneMintLog(clock.now() // 1000)
    market = LiveMarket(1)
    follower = LogTailer(log, market, clock)
    streams = Streams(Broadcaster(follower, market, clock), clock, stream_bounds(config))
    async with open_money(config, clock) as money:
        app = create_api(
            config,
            reports=follower,
            ledger=money.ledger,
            checks=[],
            merchant=None,
            accounts=None,
            streams=streams,
            limits=MemoryLimits(clock),
            clock=clock,
        )
        server = create_server(api, app, clock, app.fast_path)
        freeze_startup_objects()
        following = asyncio.create_task(follower.run())
        looking = asyncio.create_task(streams.run())
        trading = asyncio.create_task(trade(log, clock))
        try:
            await server.serve(sockets=[listen("127.0.0.1", port)])
        finally:
            streams.stop()
            for task in (following, looking, trading):
                task.cancel()


async def trade(log: OneMintLog, clock: SystemClock) -> None:
    while True:
        await asyncio.sleep(EVERY_S)
        log.trade(clock.now() // 1000, time.monotonic())


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
