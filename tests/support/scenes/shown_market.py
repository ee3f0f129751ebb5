"""A market for tests of pages: about thirty tokens that have traded for a day, in a real store."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import exp, sin
from pathlib import Path
from random import Random
from typing import Final

import apsw
from based58 import b58encode
from msgspec.structs import replace

from mintscope.api.events import Streams
from mintscope.app.api import gap_check
from mintscope.app.config.groups import Config
from mintscope.app.following import StatusReader, age_rules, market_parts, stream_bounds
from mintscope.credits.ledger import CreditLedger
from mintscope.kit.checks import Check
from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import Limits
from mintscope.kit.primitives import Mint, UnixMs, UnixS
from mintscope.kit.time import DAY_S, HOUR_MS, HOUR_S
from mintscope.market.coverage import Coverage, ProgramHour, Tally
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.follow.broadcaster import Broadcaster
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.follow.tailer import LogTailer, look_again_soon
from mintscope.market.log import PricedSwap
from mintscope.site.sol import MarketParts
from mintscope.site.status import AgeRules, ReadStatus
from mintscope.solana.blocks import USDC, WSOL
from support.fakes.facts import FACTS
from support.scenes.market_engines import copied_market, market_of, put_market
from support.scenes.traded import TradedStore

STEP_S: Final = 720
NAMES: Final = (
    ("SOL", "Wrapped SOL", 171.0, 1e6), ("USDC", "USD Coin", 1.0, 8e5),
    ("JUP", "Jupiter", 0.43, 9e4), ("BONK", "Bonk", 2.2584e-5, 7e4),
    ("WIF", "dogwifhat", 0.61, 6e4), ("PYTH", "Pyth Network", 0.118, 3e4),
    ("RAY", "Raydium", 2.41, 3e4), ("JTO", "Jito", 1.02, 2e4),
    ("ORCA", "Orca", 1.87, 1e4), ("RENDER", "Render", 3.9, 1e4),
    ("HNT", "Helium", 2.9, 9e3), ("POPCAT", "Popcat", 0.201, 8e3),
    ("FARTCOIN", "Fartcoin", 0.74, 4e4), ("PENGU", "Pudgy Penguins", 0.0169, 2e4),
    ("MEW", "cat in a dogs world", 0.0021, 5e3), ("BOME", "BOOK OF MEME", 0.00131, 4e3),
    ("GOAT", "Goatseus Maximus", 0.071, 3e3), ("PNUT", "Peanut the Squirrel", 0.16, 3e3),
    ("MOODENG", "Moo Deng", 0.1, 2e3), ("GRASS", "Grass", 0.58, 2e3),
    ("W", "Wormhole", 0.066, 2e3), ("KMNO", "Kamino", 0.057, 2e3),
    ("DRIFT", "Drift", 0.43, 1e3), ("TNSR", "Tensor", 0.098, 900),
    ("CLOUD", "Sanctum Cloud", 0.12, 800), ("ZEUS", "Zeus Network", 0.14, 700),
    ("MOBILE", "Helium Mobile", 0.00031, 600), ("SAMO", "Samoyedcoin", 0.0009, 500),
    ("STEP", "Step Finance", 0.021, 400), ("MNGO", "Mango", 0.019, 300),
    ("<b>X</b>", "<script>alert(1)</script>", 4.2e-9, 250),
    ("LONG", "A name as long as a name that anybody may write on the chain", 0.5, 200),
)  # fmt: skip


# Each day, by its end, is computed once and then copied: its file, and the newest slot
DAYS: Final[dict[UnixMs, tuple[apsw.Connection, int]]] = {}


def mint_named(symbol: str) -> Mint:
    known = {"SOL": WSOL, "USDC": USDC}
    address = known.get(symbol) or b58encode(hashlib.sha256(symbol.encode()).digest()).decode()
    return Mint(address)


@dataclass
class ShownMarket:
    """A market that trades on command, and the parts from which pages read its data."""

    kept: TradedStore
    lister: ListCache
    follower: LogTailer
    parts: MarketParts
    clock: ManualClock
    rules: AgeRules
    slot: int = 350_000_000
    prices: dict[Mint, float] = field(default_factory=dict)

    @property
    def status(self) -> ReadStatus:
        reader = self.kept.market.reader
        started_at = UnixMs(self.clock.now() - HOUR_MS)
        checks = [Check("data", self._is_well), gap_check(reader, self.follower.pace)]
        return StatusReader(
            checks, reader, self.follower, None, started_at, self.rules, self._coverage
        )

    def _coverage(self) -> Coverage:
        """Return a coverage in which nearly all swaps were read."""
        hour = self.clock.now() // HOUR_MS
        rows = [
            ProgramHour(hour, "pumpswap", "read", Tally(41_200, 41_000, 9_900_000 * 10**6)),
            ProgramHour(hour, "pumpswap", "unknown_instruction", Tally(31, 30, 2_000 * 10**6)),
        ]
        since = UnixS((hour - 1) * HOUR_S)
        now = UnixS(self.clock.now() // 1_000)
        return Coverage(since, now, rows, 20_000, skipped_slots=4, missing_slots=0)

    async def _is_well(self) -> None:
        """Do nothing, so the check passes."""

    async def trade(self, *, at_s: int | None = None, mints: Sequence[Mint] = ()) -> None:
        """Add a final slot with trades, and update the data of pages."""
        await self.append(at_s, mints)
        await self.catch_up()

    async def append(self, at_s: int | None = None, mints: Sequence[Mint] = ()) -> None:
        """Append a final slot with trades, without updating the data of pages.

        at_s    the time of the slot, Unix seconds; None: now
        mints   the mints that trade; empty: all. Mints with little volume skip some slots
        """
        at = self.clock.now() // 1000 if at_s is None else at_s
        random, swaps = Random(at), []
        for n, (symbol, _, usual, volume) in enumerate(NAMES):
            mint = mint_named(symbol)
            if (mints and mint not in mints) or (volume < 1_000 and random.random() < 0.4):
                continue
            swing = 0.0006 if symbol == "USDC" else 0.03 + n % 7 * 0.02
            hours = at / 3_600
            waves = sin(hours / 2.5 + n) + sin(hours / 0.7 + n * n) / 2 + sin(hours / 6 + 5 * n)
            price = usual * exp(swing * (waves + random.gauss(0, 0.12)))
            self.prices[mint] = price
            micro = int(volume * 1e6 * random.uniform(0.2, 1.8) / 20)
            swaps += [
                PricedSwap(mint, n, 0, -1, 0, random.random() < 0.55, micro, price, price / 171.0)
                for _ in range(2)
            ]
        self.slot += 1
        await self.kept.append(self.slot, at, *swaps)

    async def catch_up(self) -> None:
        """Bring the data of pages up to date with the store."""
        await self.follower.catch_up()
        await self.lister.refresh()


@asynccontextmanager
async def shown_market(
    folder: Path, config: Config, ledger: CreditLedger, limits: Limits, clock: ManualClock
) -> AsyncIterator[ShownMarket]:
    """Open a market that has traded for a day until now."""
    day = DAYS.get(clock.now())
    if day is not None:
        put_market(day[0], folder)
    async with market_of("sqlite", folder) as market:
        await market.store.start(mints=[], follows_files=False)
        kept, live = TradedStore(market), LiveMarket(200)
        # A long timeout: browser tests block the event loop of a busy machine for seconds.
        follower = LogTailer(market.reader, live, clock, read_timeout_s=60)
        lister = ListCache(market.lists, clock, wait=look_again_soon)
        streams = Streams(Broadcaster(follower, live, clock), clock, stream_bounds(config))
        parts = market_parts(config, follower, market.series, lister, streams, ledger, limits)
        shown = ShownMarket(kept, lister, follower, parts, clock, age_rules(config.api))
        if day is None:
            await _begin(shown)
            DAYS[clock.now()] = (copied_market(folder), shown.slot)
        else:
            shown.slot = day[1]
            await shown.catch_up()
        yield shown


async def _begin(shown: ShownMarket) -> None:
    now = shown.clock.now() // 1000
    first = now - now % 60 - DAY_S - 2 * STEP_S
    await shown.kept.append(shown.slot, first)
    for n, (symbol, name, _, _) in enumerate(NAMES):
        mint = mint_named(symbol)
        await shown.kept.track(mint)
        if n % 9 != 8:
            facts = replace(
                FACTS,
                read_at_ms=UnixMs(shown.clock.now()),
                symbol=symbol,
                name=name,
                supply=10**15 * (n + 1),
            )
            await shown.kept.learn(mint, facts)
    for at in range(first + STEP_S, now - 3_600, STEP_S):
        await shown.append(at)
    for at in range(now - now % 60 - 3_600, now, 60):
        await shown.append(at, [Mint(WSOL)])
    await shown.trade()
