"""Attempts to manipulate prices, through block files, ingest and the API.

Each market of `prove.prices` is one token of the same chain.  The test judges its candles, and its
swaps that set a price according to the API.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace
from prove.prices.__main__ import FOLLOWED, RESISTED, RICH
from prove.prices.judged import extreme, judge
from prove.prices.market import SOL_USD, Trade, in_order, trade
from prove.prices.scenarios import Scenario
from replayed import AnsweredRule, answered, replayed
from traded_pools import SOL, mint_of, sol_market

from mintscope.kit.primitives import UnixS
from mintscope.solana.blocks import WSOL
from support.scenes.service import bearer

SECONDS: Final = 900
# Seconds from START to the last trade of a token that is paid for in SOL
LAST_S: Final = SECONDS - 3
POOLS: Final = ("rate-0", "rate-1", "rate-2", "rate-3")
DEPTH: Final = 1_000_000  # US dollars in each pool
Attack = Callable[[int], Sequence[Trade]]  # by a seed, trades that are added to `sol_market`


def one_trade(seed: int) -> Sequence[Trade]:
    """Return one trade of 10 to 50 SOL at 1.5 to 2.5 times the honest price, in a new pool."""
    random = Random(seed)
    price = SOL_USD * random.uniform(1.5, 2.5)
    sol = random.uniform(10, 50)
    depth = price * sol * random.uniform(1, 50)
    own = trade(_late(random), "own", price, sol * price, depth, signer="own", is_attack=True)
    return [own]


def with_oneself(seed: int) -> Sequence[Trade]:
    """Return wash trades of nine signers, one a second, in a pool at least as deep as others."""
    random = Random(seed)
    price = SOL_USD * random.choice([random.uniform(0.96, 1.04), random.uniform(0.5, 3.0)])
    depth = DEPTH * random.choice([1, 5, 50, 500])
    begin = random.randrange(60, 300)
    return [
        trade(
            second,
            "own",
            price,
            random.uniform(100, 10**6),
            depth,
            signer=f"own-{random.randrange(9)}",
            is_attack=True,
        )
        for second in range(begin, LAST_S)
    ]


def one_signer(seed: int) -> Sequence[Trade]:
    """Return one signer's trades in each second, in the honest and up to three private pools."""
    random = Random(seed)
    price = SOL_USD * random.uniform(0.96, 1.04)
    entered = (*POOLS, *(f"own-{number}" for number in range(random.randrange(4))))
    return [
        trade(second, pool, price, 1_000, DEPTH, signer="own", is_attack=True)
        for second in range(_late(random), LAST_S)
        for pool in entered
    ]


def cents_in_many(seed: int) -> Sequence[Trade]:
    """Return trades of ten dollars near the honest price, in 300 pools with almost no liquidity."""
    random = Random(seed)
    price = SOL_USD * random.uniform(1.03, 1.049)
    return [
        trade(
            second,
            f"own-{random.randrange(300)}",
            price,
            10.0,
            random.uniform(10, 100),
            signer=f"own-{random.randrange(10**6)}",
            is_attack=True,
        )
        for second in range(_late(random), LAST_S)
    ]


ATTACKS: Final[dict[str, Attack]] = {
    "one trade of 25 SOL at x2, four pools": one_trade,
    "trading with oneself in a deeper pool": with_oneself,
    "one signer in all pools": one_signer,
    "hundreds of pools with next to nothing": cents_in_many,
}


def _late(random: Random) -> int:
    return random.randrange(300, 600)


STORM_IS_FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long
SEEDS = range(1, 26 if STORM_IS_FULL else 2)
CREDITS = 100_000
FOLLOWED_S_MAX = 10
NEAR = 1e-6  # the error of a price by rounding to whole units


def varied(scenario: Scenario, seed: int) -> Scenario:
    """Return *scenario* with size, time and signers of its attacks changed at random by *seed*."""
    random = Random(seed)
    size, later_s, signers = random.uniform(0.5, 1.5), random.randrange(20), random.randint(1, 9)
    own = []
    for number, one in enumerate(one for one in scenario.trades if one.is_attack):
        offer = one.offer
        depth = None if offer.depth is None else int(offer.depth * size)
        changed = replace(
            offer,
            signer=f"{offer.signer}-{number % signers}",
            volume=int(offer.volume * size),
            depth=depth,
            time=UnixS(offer.time + later_s),
        )
        own.append(one._replace(offer=changed))
    honest = [one for one in scenario.trades if not one.is_attack]
    return Scenario(in_order(honest, own), scenario.since_s)


def markets(seed: int) -> dict[str, Scenario]:
    """Return markets by name: moves that prices must follow, and attacks that they must not."""
    followed = {name: make(seed) for name, make in FOLLOWED.items()}
    resisted = {name: varied(make(seed), seed) for name, make in RESISTED.items()}
    return followed | resisted | bought(seed)


def bought(seed: int) -> dict[str, Scenario]:
    """Return attacks on a token of 100,000 USD by attackers with 100 to 10,000 USD in pools."""
    random = Random(seed)
    made = {}
    for name in RICH if STORM_IS_FULL else random.sample(list(RICH), 3):
        usd = 10 ** random.uniform(2, 4)
        made[f"{usd:,.0f} USD {name}"] = Scenario(*RICH[name](usd))
    return made


@pytest.mark.parametrize("seed", SEEDS)
async def test_honest_moves_are_followed_and_bought_prices_are_not(
    seed: int, tmp_path: Path
) -> None:
    scenarios = markets(seed)
    wrong: list[object] = []
    trades_of = {name: scenario.trades for name, scenario in scenarios.items()}
    async with replayed(tmp_path, trades_of) as (service, swapped):
        token = await service.issue(CREDITS)
        for name, scenario in scenarios.items():
            lines = {line["signature"]: line for line in await answered(service, token, name)}
            mint = mint_of(name)
            mine = [one for one in swapped if one.mint == mint]
            assert len(mine) == len(lines) == len(scenario.trades), name
            flags = [lines[one.signature]["setsPrice"] for one in mine]
            trades = [one.trade for one in mine]
            judged = judge(AnsweredRule(flags), trades, since_s=scenario.since_s)
            most = extreme(AnsweredRule(flags), trades, scenario.since_s)
            if name in FOLLOWED:
                if judged.longest_s > FOLLOWED_S_MAX:
                    wrong.append((name, judged))
                continue
            honest = [one.offer.usd for one in trades if not one.is_attack]
            path = f"/v1/token/{mint}/candles?tf=m1&limit=1000"
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


def paid_in_sol() -> list[Trade]:
    """Return trades of a token at one price in SOL, every three seconds, by many signers."""
    return [
        trade(second, "pool", SOL_USD / 100, 500.0, 200_000, signer=f"person-{second}")
        for second in range(0, SECONDS, 3)
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_the_sol_rate_and_prices_in_sol_do_not_follow_an_attack(
    attack: Attack, seed: int, tmp_path: Path
) -> None:
    of_sol = [*sol_market(SECONDS), *attack(seed)]
    async with replayed(tmp_path, {SOL: of_sol, "token": paid_in_sol()}) as (service, _):
        token = await service.issue(CREDITS)
        closes: dict[str, float] = {}
        for mint, price in ((WSOL, SOL_USD), (mint_of("token"), SOL_USD / 100)):
            path = f"/v1/token/{mint}/candles?tf=m1&limit=1000"
            response = await service.client.get(path, headers=bearer(token))
            candles = response.json()["data"]["candles"]
            assert len(candles) >= SECONDS // 60
            for name in ("o", "h", "l", "c"):
                assert [candle[name] for candle in candles] == pytest.approx(
                    [price] * len(candles), rel=0.001
                )
            closes[mint] = candles[-1]["c"]
        path = f"/v1/token/{mint_of('token')}/swaps?limit=1"
        response = await service.client.get(path, headers=bearer(token))
        (newest,) = response.json()["data"]["swaps"]
        assert newest["price"]["usd"] == closes[mint_of("token")]
        ratio = newest["price"]["usd"] / newest["price"]["sol"]
        assert ratio == pytest.approx(closes[WSOL], rel=1e-15)
