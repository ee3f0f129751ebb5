"""Real trades of launches, through block files, ingest and the API: the price of each second.

market_2026 has the trades of nine tokens in the first five minutes of their pool, one pool each and
without balances.  The test adds the curve before the pool (115 SOL, a swap every 0.7 s), the
liquidity of the pool (85 SOL and all later inflow), and the trades of SOL.  Each token has curves
of several lengths: once with the migration of pump.fun between curve and pool, and once without a
migration, as on venues whose migrations name no pool.

The served price of a second is that of the newest swap that set a price according to `/swaps`.  The
true price is that of the newest trade: on the curve before the pool's first trade, then in the
pool.  All seconds from the end of the curve on are judged.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from prove.prices.market import START, Trade
from prove.prices.scenarios import CURVES_S, read_launches, real_launch
from replayed import answered, replayed
from traded_pools import Swapped, mint_of

from support.scenes.service import Service

STORM_IS_FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
OFF: Final = 0.02
OFF_SHARE_MAX: Final = 0.01
FOLLOWED_S_MAX: Final = 10
CREDITS: Final = 100_000
CURVES: Final = {"pool": "curve"}


class Launch(NamedTuple):
    """The trades of a new token.

    since_s       the second from which its prices are judged
    is_migrated   whether a migration from a curve precedes its pool
    """

    trades: Sequence[Trade]
    since_s: int
    is_migrated: bool


class Seconds(NamedTuple):
    """The numbers of seconds compared, of those with a wrong price, and of the longest such run."""

    judged: int
    off: int
    longest: int


def launches(read: Sequence[Mapping[str, Any]]) -> dict[str, Launch]:
    """Return each launch of *read*, after its curves, with and without a migration."""
    made = {}
    for place, launch in enumerate(read):
        for curve_s in CURVES_S if STORM_IS_FULL else CURVES_S[place : place + 1]:
            trades, since_s = real_launch(dict(launch), curve_s)
            for is_migrated in (True, False):
                name = f"{launch['mint']} after {curve_s} s, {is_migrated}"
                made[name] = Launch(trades, since_s, is_migrated)
    return made


def seconds_off(
    true: Sequence[tuple[int, float]], served: Sequence[tuple[int, float]], since: int
) -> Seconds:
    """Compare *served* with *true* prices in each second from *since* to the last true price.

    true, served   prices, each with the Unix second from which it is valid
    """
    now = [0.0, 0.0]
    places = [0, 0]
    judged = off = longest = run = 0
    for second in range(since, true[-1][0] + 1):
        for side, prices in enumerate((true, served)):
            while places[side] < len(prices) and prices[places[side]][0] <= second:
                now[side] = prices[places[side]][1]
                places[side] += 1
        if not now[0]:
            continue
        judged += 1
        is_off = not now[1] or max(now[0] / now[1], now[1] / now[0]) > 1 + OFF
        run = run + 1 if is_off else 0
        off += is_off
        longest = max(longest, run)
    return Seconds(judged, off, longest)


async def served(
    service: Service, token: str, name: str, mine: Sequence[Swapped]
) -> list[tuple[int, float]]:
    """Return (Unix s, USD price) of each swap of *mine* that sets a price according to the API."""
    lines = {line["signature"]: line for line in await answered(service, token, name)}
    assert len(lines) == len(mine), name
    reported = [lines[one.signature] for one in mine]
    return [(one["t"], one["price"]["usd"]) for one in reported if one["setsPrice"]]


@pytest.mark.timeout(3_600 if STORM_IS_FULL else 400)
async def test_the_price_of_a_launch_is_within_2_percent_of_its_newest_trade(
    tmp_path: Path, shared_data: Path, record_property: Callable[[str, object], None]
) -> None:
    path = shared_data / "market_2026" / "launch_trades.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"did not run: the launches are not there: {path}")
    made = launches(read_launches(path))
    curves = {name: CURVES for name, launch in made.items() if launch.is_migrated}
    reported: dict[bool, list[Seconds]] = {True: [], False: []}
    markets = {name: launch.trades for name, launch in made.items()}
    async with replayed(tmp_path, markets, curves) as (service, swapped):
        token = await service.issue(CREDITS)
        for name, launch in made.items():
            mine = [one for one in swapped if one.mint == mint_of(name)]
            prices = await served(service, token, name, mine)
            true = [(one.trade.offer.time, one.trade.offer.usd) for one in mine]
            reported[launch.is_migrated].append(seconds_off(true, prices, START + launch.since_s))
    for is_migrated, all_seconds in reported.items():
        judged = sum(one.judged for one in all_seconds)
        off = sum(one.off for one in all_seconds)
        longest = max(one.longest for one in all_seconds)
        what = "with" if is_migrated else "without"
        figure = (
            f"{len(all_seconds)} launches {what} a migration: within 2 % in"
            f" {100 * (1 - off / judged):.2f} % of {judged} seconds, off for {longest} s at most"
        )
        record_property("figure", figure)
        assert off <= OFF_SHARE_MAX * judged, figure
        assert longest <= FOLLOWED_S_MAX, figure


def test_seconds_with_no_price_or_a_wrong_price_are_counted_as_off() -> None:
    true = [(0, 1.0), (5, 2.0), (9, 2.0)]

    assert seconds_off(true, [(0, 1.0), (5, 2.0)], 0) == (10, 0, 0)
    assert seconds_off(true, [(2, 1.0), (7, 2.03)], 0) == (10, 4, 2)
    assert seconds_off(true, [(2, 1.0), (7, 2.05)], 4) == (6, 5, 5)
