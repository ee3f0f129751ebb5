"""Runs mintscope's API with a market of one mint; the newest slots are not final yet.

`python -m bench.peers_http.series PORT FOLDER`
"""

import sys
from hashlib import sha512
from pathlib import Path
from typing import Final

import uvloop
from solders.signature import Signature as SignatureBytes

from bench.peers_http.ours import OneReport, serve_app
from mintscope.app.config.groups import Config
from mintscope.app.stores.market import Market
from mintscope.app.stores.stores import open_market, open_money
from mintscope.app.web_api import create_api
from mintscope.ingest.fold import fold_once
from mintscope.kit.clock import SystemClock
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import Signature, Slot, UnixS
from mintscope.market.log import PricedSwap, SlotHeader, SwapDetail
from mintscope.market.ports import Change, FinalSlot, NewSlot
from mintscope.solana.blocks import USDC, WSOL

MINUTES: Final = 1_500
NOT_FINAL: Final = 32
SWAPS: Final = 10  # the number of swaps of the mint in each slot that is not folded
BEGIN_S: Final = 1_700_000_040
POOL: Final = "58oQChx4yWmvKdwLLZzBi4ChoCc2fqCUWBkwMihLYQo2"


async def fill(market: Market) -> None:
    """Store swaps of one mint: one each minute, and several in each of the newest slots.

    The newest slots are not final yet.
    """
    await market.store.start(mints=[WSOL], follows_files=True)
    changes: list[Change] = [_slot(n, BEGIN_S + 60 * n, 1) for n in range(1, MINUTES + 1)]
    await market.store.write([*changes, FinalSlot(Slot(MINUTES))])
    while await fold_once(market.store, None):
        pass
    last = MINUTES + NOT_FINAL + 1
    await market.store.write(
        [_slot(n, BEGIN_S + 60 * MINUTES + n % 60, SWAPS) for n in range(MINUTES + 1, last)]
    )


def _slot(number: int, at: int, count: int) -> NewSlot:
    price = 150 + number % 17 / 7
    swaps = [
        PricedSwap(
            WSOL, n, 0, -1, 0, n % 2 == 0, 10**6 + number, price + n, 1.0, POOL,
            detail=_detail(number, n),
        )
        for n in range(count)
    ]  # fmt: skip
    header = SlotHeader(Slot(number), Slot(number - 1), f"{number}", UnixS(at), 150.0, UnixS(at))
    return NewSlot(header, swaps)


def _detail(number: int, index: int) -> SwapDetail:
    signature = SignatureBytes.from_bytes(sha512(f"{number} {index}".encode()).digest())
    amount = 10**9 + 7_919 * number + index
    return SwapDetail(Signature(str(signature)), "raydium_v4", amount, 9, USDC, 150 * amount)


async def serve(port: int, folder: Path) -> None:
    clock, config = SystemClock(), Config(data_dir=folder)
    async with open_money(config, clock) as money, open_market(config) as market:
        await fill(market)
        app = create_api(
            config,
            reports=OneReport(b"{}"),
            ledger=money.ledger,
            checks=[],
            limits=MemoryLimits(clock),
            clock=clock,
            series=market.series,
        )
        await serve_app(app, clock, port)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
