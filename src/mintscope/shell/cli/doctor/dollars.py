"""Checks whether the dollars that others are priced in are on their peg."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from mintscope.base.errors import ServiceUnavailable, UnusableStore
from mintscope.base.primitives import Mint
from mintscope.base.solana import WSOL
from mintscope.base.time import MINUTE_S
from mintscope.core.market.quotes import PEG_FRESH_S, PEG_MAX, off_peg
from mintscope.core.market.rate_age import RATE_LATE_S
from mintscope.core.payments.pricing.token_market import minutes_of
from mintscope.shell.cli.doctor.finding import Finding, fail, ok, warn
from mintscope.shell.config.config import Config
from mintscope.shell.wiring.stores import market_place, open_market

FRESH_MINUTES: Final = PEG_FRESH_S // MINUTE_S
WHAT_FOLLOWS: Final = (
    "it prices nothing until it is back; if it stays off, take it out of market.dollars"
)


def check_dollars(config: Config) -> Iterator[Finding]:
    """Compare the dollars that are followed here, by what they traded at lately."""
    if market_place(config).is_new:
        return
    with suppress(UnusableStore, ServiceUnavailable):  # reported by the check of the market
        prices, sol_age_s = asyncio.run(_prices(config))
        if sol_age_s > RATE_LATE_S:
            yield fail(
                f"rate: SOL was not traded against a dollar for {sol_age_s} s: prices stand still",
                "see docs/operating/troubleshoot.md#sol-has-no-rate",
            )
        yield from findings(prices, _dollars(config))


def _dollars(config: Config) -> frozenset[Mint]:
    return frozenset(map(Mint, config.market.dollars))


async def _prices(config: Config) -> tuple[dict[Mint, float], int]:
    """Return recent prices of each followed dollar, and the time since the last trade of SOL."""
    prices: dict[Mint, float] = {}
    async with open_market(config) as market:
        tip = await market.reader.tip()
        if tip.time is None:
            return prices, 0
        sol = await market.reader.load(WSOL)
        traded = [] if sol is None else minutes_of(sol)
        sol_age_s = max(0, tip.time - traded[-1].start - MINUTE_S) if traded else 0
        for dollar in sorted(_dollars(config)):
            loaded = await market.reader.load(dollar)
            minutes = [] if loaded is None else minutes_of(loaded)
            if minutes and tip.time - minutes[-1].start <= PEG_FRESH_S:
                prices[dollar] = minutes[-1].close
    return prices, sol_age_s


def findings(prices: Mapping[Mint, float], dollars: frozenset[Mint]) -> Iterator[Finding]:
    """Yield which of *dollars* are off the median of all; *prices* are what they trade at."""
    off = {mint: share for mint, share in off_peg(prices, dollars).items() if mint in prices}
    if not off:
        yield ok(
            f"dollars: too few are followed here and traded within {FRESH_MINUTES} minutes to"
            " compare them; the metric mintscope_dollar_off_peg knows those that are not followed"
        )
        return
    wrong = {mint: share for mint, share in off.items() if abs(share) > PEG_MAX}
    for mint, share in sorted(wrong.items()):
        where = "above" if share > 0 else "below"
        what = f"dollars: {mint} is {abs(share):.1%} {where} the median of all".replace("%", " %")
        yield warn(what, WHAT_FOLLOWS)
    if not wrong:
        yield ok(f"dollars: the {len(off)} that traded lately are within 1 % of their median")
