"""A token that is traded for an untracked token has the same prices after a restart."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mintscope.ingest.pipeline import Ingest
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.solana.blocks import USD1, USDC, WSOL, Block
from support.fakes.made_chain import MINTS, START, ListSource, block, decode_made, sol_sale, swap
from support.oracles.market_file import kept
from support.scenes.stores import market_in

TOKEN, ROBUST = MINTS[:2]
EVERY_S: Final = 5
TRADED: Final = 800  # slots: more than an hour, after which a token that trades can be a quote
LAST: Final = 10  # slots without a trade of the quote: too few to make its price stale
RESTARTS: Final = (TRADED - 500, TRADED)  # the log has trimmed slots at each of them


def chain(quote: Mint) -> list[Block]:
    """Return blocks in which *quote* is sold for USDC, and TOKEN is sold only for *quote*."""
    blocks: list[Block] = []
    for number in range(TRADED + LAST):
        swaps = [sol_sale(100.0)._replace(pool="sol")]
        if number < TRADED:
            own = swap(quote, USDC, base_amount=10**9, quote_amount=10**9, is_buy=False)
            swaps.append(own._replace(pool="quote", signer=f"{number} of many", out_left=10**12))
        sold = swap(TOKEN, quote, base_amount=10**9, quote_amount=10**9, is_buy=False)
        swaps.append(sold._replace(pool="token", out_left=10**12))
        time = START + EVERY_S * number
        blocks.append(block(number + 1, blocks[-1] if blocks else None, swaps, time=time))
    return blocks


async def run(blocks: Sequence[Block], folder: Path) -> None:
    async with market_in(folder) as market:
        ingest = Ingest(
            source=ListSource(blocks),
            store=market.store,
            decode=decode_made,
            clock=ManualClock(UnixMs(0)),
            mints=[WSOL, TOKEN],
        )
        await asyncio.wait_for(ingest.run(), 60)
        while await market.store.trim(1_000):
            pass


def candles(folder: Path) -> list[Any]:
    """Return the candles of TOKEN in *folder*."""
    return [row for row in kept(folder)["candles"] if row[0] == TOKEN]


@pytest.mark.parametrize("quote", [ROBUST, USD1], ids=["robust", "dollar"])
async def test_a_token_with_an_untracked_quote_has_the_same_candles_after_restarts(
    quote: Mint, tmp_path: Path
) -> None:
    blocks = chain(quote)
    await run(blocks, tmp_path / "once")
    for end in (*RESTARTS, len(blocks)):
        await run(blocks[:end], tmp_path / "often")

    once = candles(tmp_path / "once")
    assert max(bucket for _, _, bucket, *_ in once) > START + EVERY_S * TRADED - 60
    assert once == candles(tmp_path / "often")
