"""Prices that someone tries to buy, through block files, ingest and the API.

Each market of `prove.prices` is a token of its own in one chain.  What is judged is which of its
swaps the API says to have set the price, and its candles.
"""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
from prove.prices.__main__ import FOLLOWED, RESISTED
from prove.prices.judged import extreme, judge
from prove.prices.market import START, in_order
from prove.prices.scenarios import Scenario

from mintscope.base.clock import ManualClock
from mintscope.base.primitives import Mint, UnixMs, UnixS
from mintscope.base.solana import WSOL
from mintscope.base.time import DAY_S, SECOND_MS
from mintscope.core.dex.decode import decode_block
from mintscope.core.market.retention import DEFAULT_RETENTION, Retention
from mintscope.core.market.standing import Offer
from mintscope.edges.ingest.pipeline import Ingest
from mintscope.edges.sources.files import FileSource
from mintscope.shell.config.sections import ApiConfig
from support.scenes.market_engines import market_of
from support.scenes.service import Service, bearer, running_service
from support.scenes.traded_pools import SOL, Swapped, block_file, last_second, mint_of, sol_market

STORM_IS_FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long
SEEDS = range(1, 26 if STORM_IS_FULL else 2)
PAGE = 500
UNLIMITED = ApiConfig(rate_limit_requests=1_000_000)
CREDITS = 100_000
FOLLOWED_S_MAX = 10
NEAR = 1e-6  # what rounding to whole units does to a price


class AnsweredRule:
    """What the API says of the swaps of one token, in order."""

    def __init__(self, sets: Sequence[bool]) -> None:
        self._sets: Iterator[bool] = iter(sets)

    def sets_price(self, _offer: Offer) -> bool:
        """Return what it says of the next one."""
        return next(self._sets)


def varied(scenario: Scenario, seed: int) -> Scenario:
    """Return *scenario* with attacks of another size, at another moment, by others."""
    random = Random(seed)
    size, later_s, signers = random.uniform(0.5, 1.5), random.randrange(20), random.randint(1, 9)
    own = []
    for number, one in enumerate(one for one in scenario.trades if one.is_attack):
        offer = one.offer
        depth = None if offer.depth is None else int(offer.depth * size)
        changed = offer._replace(
            signer=f"{offer.signer}-{number % signers}",
            volume=int(offer.volume * size),
            depth=depth,
            time=UnixS(offer.time + later_s),
        )
        own.append(one._replace(offer=changed))
    honest = [one for one in scenario.trades if not one.is_attack]
    return Scenario(in_order(honest, own), scenario.since_s)


def markets(seed: int) -> dict[str, Scenario]:
    """Return every market, and attacks of every kind."""
    followed = {name: make(seed) for name, make in FOLLOWED.items()}
    return followed | {name: varied(make(seed), seed) for name, make in RESISTED.items()}


@asynccontextmanager
async def replayed(
    folder: Path, scenarios: Mapping[str, Scenario]
) -> AsyncIterator[tuple[Service, list[Swapped]]]:
    """Serve the market that block files with *scenarios* leave behind."""
    trades = {name: scenario.trades for name, scenario in scenarios.items()}
    end_s = last_second(trades)
    content, swapped = block_file({SOL: sol_market(end_s), **trades})
    path = folder / "blocks.jsonl"
    path.write_bytes(content)
    clock = ManualClock(UnixMs((START + end_s) * SECOND_MS))
    retention = Retention(DEFAULT_RETENTION.keep_s, swaps_s=DAY_S)
    async with market_of("sqlite", folder, retention=retention) as market:
        await Ingest(
            source=FileSource([path]),
            store=market.store,
            decode=decode_block,
            clock=clock,
            mints=[WSOL, *(Mint(mint_of(name)) for name in scenarios)],
            follows_files=True,
        ).run()
        async with running_service(
            folder, clock=clock, series=market.series, api=UNLIMITED
        ) as service:
            yield service, swapped


async def answered(service: Service, token: str, name: str) -> dict[str, bool]:
    """Return whether each swap of a market set the price, by signature."""
    sets: dict[str, bool] = {}
    asked = {"limit": str(PAGE)}
    while True:
        path = f"/v1/token/{mint_of(name)}/swaps"
        response = await service.client.get(path, params=asked, headers=bearer(token))
        assert response.status_code == 200, response.text
        data = response.json()["data"]
        sets |= {swap["signature"]: swap["setsPrice"] for swap in data["swaps"]}
        if data["nextCursor"] is None:
            return sets
        asked["cursor"] = data["nextCursor"]


@pytest.mark.timeout(1_800 if STORM_IS_FULL else 120)
@pytest.mark.parametrize("seed", SEEDS)
async def test_honest_moves_are_followed_and_bought_prices_are_not(
    seed: int, tmp_path: Path
) -> None:
    scenarios = markets(seed)
    wrong: list[object] = []
    async with replayed(tmp_path, scenarios) as (service, swapped):
        token = await service.issue(CREDITS)
        for name, scenario in scenarios.items():
            sets = await answered(service, token, name)
            mine = [one for one in swapped if one.mint == mint_of(name)]
            assert len(mine) == len(sets) == len(scenario.trades), name
            flags = [sets[one.signature] for one in mine]
            trades = [one.trade for one in mine]
            judged = judge(AnsweredRule(flags), trades, since_s=scenario.since_s)
            most = extreme(AnsweredRule(flags), trades, scenario.since_s)
            if name in FOLLOWED:
                if judged.longest_s > FOLLOWED_S_MAX:
                    wrong.append((name, judged))
                continue
            honest = [one.offer.usd for one in trades if not one.is_attack]
            path = f"/v1/token/{mint_of(name)}/candles?tf=m1&limit=1000"
            response = await service.client.get(path, headers=bearer(token))
            candles = response.json()["data"]["candles"]
            assert candles
            highest = max(candle["h"] for candle in candles)
            lowest = min(candle["l"] for candle in candles)
            if (
                judged.off_s
                or most != 1.0
                or highest > max(honest) * (1 + NEAR)
                or lowest < min(honest) * (1 - NEAR)
            ):
                wrong.append((name, judged, most, lowest, highest))
    assert wrong == []
