"""A market for pages: tokens with a history, a young token, and a token that never traded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import exp
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw
from msgspec import structs

from mintscope.api.events import StreamBounds, Streams
from mintscope.app.config.groups import Config
from mintscope.app.following import market_parts
from mintscope.app.stores.market import Market
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.broadcaster import Broadcaster
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import LogTailer, look_again_soon
from mintscope.market.log import PricedSwap, SwapDetail
from mintscope.market.mint_facts import MintFacts, ScaledUiAmount, TokenProgram
from mintscope.market.ports import FinalSlot, OrphanedSlot
from mintscope.market.series.pools import SeriesReader
from mintscope.site.sol import MarketParts
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.holders import FakeHolders
from support.scenes.market_engines import copied_market, market_of, put_market
from support.scenes.traded import fold_all, new_slot

SOL: Final = Mint(WSOL)
BONE: Final = Mint("Hjzi9ZQcC4NWuXFYVVJ5FhdNUE2dXnZZqrYXAdo3mWNt")
RISKY: Final = Mint("JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN")
YOUNG: Final = Mint("DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263")
SILENT: Final = Mint(USDC)
UNTRACKED: Final = Mint("4k3Dyjzvzp8eMZWUXbBCjEvwSkkk59S5iCNLY3QrkX6R")
ISSUER: Final = "7fUAJdStEuGbc3sM84cKRL6yYaaSstyLSU4ve5oovLS7"
SPACING_S: Final = 20
SWAPS: Final = 1_080  # the number of swaps in six hours
BEGIN_SLOT: Final = 380_000_000
SLOTS_APART: Final = SPACING_S * 5 // 2
LAST_SLOT: Final = BEGIN_SLOT + SWAPS * SLOTS_APART
STREAM_BOUNDS: Final = StreamBounds(streams_per_account_max=500)
START_USD: Final = {SOL: 171.25, BONE: 0.000022584, RISKY: 0.4321}
# Each market, by its last moment, is filled once and then copied
MARKETS: Final[dict[UnixMs, apsw.Connection]] = {}


@dataclass
class TokenMarket:
    market: Market
    follower: LogTailer
    lister: ListCache
    parts: MarketParts
    clock: ManualClock
    series: "CountedSeries"
    holders: FakeHolders
    slot: int = LAST_SLOT

    async def trade(self, *swaps: PricedSwap, after_s: int = 1, is_seen: bool = True) -> None:
        """Add a slot with *swaps* *after_s* seconds later; pages show it if *is_seen*."""
        self.clock.advance(after_s * 1000)
        self.slot += 1
        await self.market.store.write([new_slot(self.slot, self.clock.now() // 1000, swaps)])
        if is_seen:
            await self.follower.catch_up()

    async def retract(self) -> None:
        """Abandon the newest slot, as a fork does."""
        await self.market.store.write([OrphanedSlot(Slot(self.slot))])
        self.slot -= 1
        await self.follower.catch_up()

    async def fold(self) -> None:
        """Make all slots final, add them up in the candles, and update the list."""
        await self.market.store.write([FinalSlot(Slot(self.slot))])
        await fold_all(self.market)
        await self.lister.refresh()


class CountedSeries:
    """Passes all calls to *series*, and counts them, except calls of `tip` and `facts`.

    unanswered   the number of the next counted calls that raise ServiceUnavailable instead
    """

    def __init__(self, series: SeriesReader) -> None:
        self._series = series
        self.count = 0
        self.unanswered = 0

    def __getattr__(self, name: str) -> Any:
        if name not in {"tip", "facts"}:
            self.count += 1
            if self.unanswered:
                self.unanswered -= 1
                raise ServiceUnavailable("the store does not answer")
        return getattr(self._series, name)


@asynccontextmanager
async def open_token_market(
    folder: Path, config: Config, ledger: CreditLedger, limits: Limits, clock: ManualClock
) -> AsyncIterator[TokenMarket]:
    """Open a market that has traded for six hours until now, with the data for pages."""
    now = clock.now()
    if now in MARKETS:
        put_market(MARKETS[now], folder)
    async with market_of("sqlite", folder) as market:
        tracked = [SOL, BONE, RISKY, YOUNG, SILENT]
        await market.store.start(mints=tracked, follows_files=False)
        if now not in MARKETS:
            await _trade_until(market, now // 1000)
            for mint, facts in _facts(now).items():
                await market.facts.save(mint, facts)
            MARKETS[now] = copied_market(folder)
        live = LiveMarket(8)
        follower = LogTailer(market.reader, live, clock)
        streams = Streams(Broadcaster(follower, live, clock), clock, STREAM_BOUNDS)
        lister = ListCache(market.lists, clock, wait=look_again_soon)
        await follower.catch_up()
        await lister.refresh()
        series = CountedSeries(market.series)
        holders = FakeHolders()
        counted: Any = series
        parts = market_parts(config, follower, counted, lister, streams, ledger, limits, holders)
        looking = asyncio.create_task(streams.run())
        try:
            yield TokenMarket(market, follower, lister, parts, clock, series, holders)
        finally:
            looking.cancel()


def swap_of(
    mint: Mint, usd: float, *, is_buy: bool = True, dollars: float = 120.0, number: int = 0
) -> PricedSwap:
    """Return a swap of *mint* for *dollars*, in its SOL pool; of SOL, in the USDC pool."""
    decimals = 9 if mint == SOL else 6
    detail = SwapDetail(
        Signature(f"{number:0>4}".replace("0", "Q") + "x" * 83),
        "pumpswap",
        int(dollars / usd * 10**decimals),
        decimals,
        SILENT if mint == SOL else SOL,
        int(dollars * 10**6) if mint == SOL else int(dollars / START_USD[SOL] * 10**9),
        6 if mint == SOL else 9,
    )
    sol = 1.0 if mint == SOL else usd / START_USD[SOL]
    return PricedSwap(
        mint, 0, number % 50, -1, 0, is_buy, int(dollars * 1e6), usd, sol, "pool", detail=detail
    )


async def _trade_until(market: Market, end_s: int) -> None:
    """Make the tokens trade until *end_s*, and fold all but the newest slots."""
    random, prices = Random(7), dict(START_USD)
    slots = []
    for step in range(SWAPS):
        number = BEGIN_SLOT + (step + 1) * SLOTS_APART
        at_s = end_s - SPACING_S * (SWAPS - 1 - step)
        swaps = []
        for place, mint in enumerate(prices):
            prices[mint] *= exp(random.gauss(0, 0.004 if mint == SOL else 0.012))
            swaps.append(
                swap_of(
                    mint,
                    prices[mint],
                    is_buy=random.random() < 0.52,
                    dollars=random.lognormvariate(5, 1.2),
                    number=3 * step + place,
                )
            )
        if step >= SWAPS - 8:
            swaps.append(swap_of(YOUNG, 0.01 + step * 1e-6, number=step))
        slots.append(new_slot(number, at_s, swaps))
    for first in range(0, SWAPS, 200):
        await market.store.write(slots[first : first + 200])
    await market.store.write([FinalSlot(slots[-6].header.slot)])
    await fold_all(market)


def _facts(now: UnixMs) -> dict[Mint, MintFacts]:
    plain = MintFacts(
        slot=Slot(BEGIN_SLOT),
        read_at_ms=UnixMs(now - 600_000),
        program=TokenProgram.SPL,
        decimals=6,
        supply=1_000_000_000 * 10**6,
        mint_authority=None,
        freeze_authority=None,
        name="Bone Token",
        symbol="BONE",
        transfer_fee_bps=None,
        transfer_hook=None,
        permanent_delegate=None,
    )
    return {
        SOL: structs.replace(plain, name="Wrapped SOL", symbol="SOL", decimals=9, supply=0),
        BONE: plain,
        YOUNG: structs.replace(plain, name=None, symbol="YNG", supply=7),
        RISKY: structs.replace(
            plain,
            name="Every risk there is, in one token with a rather long name",
            symbol="RISK",
            program=TokenProgram.SPL_2022,
            mint_authority=ISSUER,
            freeze_authority=ISSUER,
            transfer_fee_bps=250,
            transfer_hook=ISSUER,
            permanent_delegate=ISSUER,
            pause_authority=ISSUER,
            scaled_ui_amount=ScaledUiAmount(
                multiplier=2.5, new_multiplier=5.0, effective_at=4_102_444_800
            ),
        ),
    }
