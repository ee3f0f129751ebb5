"""Attacks with borrowed liquidity, replayed from block files through ingest and the API."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from prove.prices.judged import extreme, judge
from prove.prices.market import SOL_USD, Pool, Trade, crowd, in_order, trade
from replayed import AnsweredRule, answered, replayed
from traded_pools import BORROWED, Leg, Together, mint_of

from mintscope.solana.blocks import WSOL
from support.scenes.service import bearer

CREDITS: Final = 1_000
BEGINS_S: Final = 3_000  # an hour before the attack only the made-up quote is traded
ATTACKED_S: Final = 3_700
ENDS_S: Final = 3_900
DEPTH: Final = 100_000.0
FAR_OFF: Final = 3.0


def _own(at_s: int, usd: float, depth: float, pool: str = "own") -> Trade:
    """Return a trade of 200 USD at the price *usd*, by one of seven keys of the attacker."""
    signer = f"own-{at_s % 7}"
    return trade(at_s, pool, usd, 200.0, depth, signer=signer, is_attack=True)


def vaults_of_another() -> list[Trade]:
    """Return swaps by the attacker's own program that name the vaults of the honest pool."""
    pool = f"{BORROWED}honest"
    return [_own(at_s, FAR_OFF, DEPTH, pool) for at_s in range(BEGINS_S + 200, ENDS_S)]


def a_gift() -> list[Trade]:
    """Return trades in an old pool that holds ten million USD at some of them, and 10 at others."""
    given = range(ATTACKED_S, ENDS_S, 20)
    return [
        _own(at_s, FAR_OFF if at_s >= ATTACKED_S else 1.0, 1e7 if at_s in given else 10.0)
        for at_s in range(BEGINS_S + 200, ENDS_S, 2)
    ]


def a_visit_to_each() -> list[Trade]:
    """Return trades in each of twenty pools in turn: all show the same 9,000 USD as their depth."""
    return [
        _own(at_s, FAR_OFF if at_s >= ATTACKED_S else 1.0, 9_000.0, f"own-{number}")
        for at_s in range(BEGINS_S, ENDS_S, 10)
        for number in range(20)
    ]


def taken_away() -> list[Trade]:
    """Return trades in a pool that holds three times DEPTH until the attack, and then 10 USD."""
    return [
        _own(at_s, 1.0, 3 * DEPTH) if at_s < ATTACKED_S else _own(at_s, FAR_OFF, 10.0)
        for at_s in range(BEGINS_S + 200, ENDS_S, 2)
    ]


ATTACKS: Final[dict[str, Callable[[], Sequence[Trade]]]] = {
    one.__name__: one for one in (vaults_of_another, a_gift, a_visit_to_each, taken_away)
}


async def test_borrowed_depth_moves_no_price(tmp_path: Path) -> None:
    """One attack uses a made-up quote token, whose only pool has 1,000 USD."""
    pools = [Pool("honest", DEPTH, DEPTH)]
    honest = list(crowd(Random(1), pools, begin=BEGINS_S, end=ENDS_S, every_s=2.0))
    markets = {name: in_order(honest, attack()) for name, attack in ATTACKS.items()}
    markets["quoted"] = honest
    markets["made up"] = [_own(at_s, 1.0, 1_000.0) for at_s in range(0, ENDS_S, 7)]
    together = [_for_made_up(at_s) for at_s in range(ATTACKED_S, ENDS_S - 5, 2)]
    highest_of = max(one.offer.usd for one in honest)
    moved: list[str] = []
    async with replayed(tmp_path, markets, together=together) as (service, swapped):
        token = await service.issue(CREDITS)
        for name in [*ATTACKS, "quoted"]:
            mint = mint_of(name)
            lines = {line["signature"]: line for line in await answered(service, token, name)}
            mine = [one for one in swapped if one.mint == mint]
            rule = [lines[one.signature]["setsPrice"] for one in mine]
            trades = [one.trade for one in mine]
            judged = judge(AnsweredRule(rule), trades, since_s=ATTACKED_S)
            most = extreme(AnsweredRule(rule), trades, ATTACKED_S)
            path = f"/v1/token/{mint}/candles?tf=m1&limit=1000"
            candles = (await service.client.get(path, headers=bearer(token))).json()["data"]
            highest = max(one["h"] for one in candles["candles"])
            if judged.off_s or most != 1.0 or highest > highest_of * 1.000001:
                moved.append(name)
    assert moved == []


def _for_made_up(at_s: int) -> Together:
    """Return a purchase of "quoted" at the price FAR_OFF, with a token that the attacker made."""
    made_up, quoted = mint_of("made up"), mint_of("quoted")
    signer = f"own-{at_s % 7}"
    leg = Leg("own", signer, (made_up, 300 * 10**6), (quoted, round(300 / FAR_OFF * 10**6)))
    left = {made_up: 10**15, quoted: 10**15, WSOL: round(DEPTH / SOL_USD * 10**9)}
    return Together(at_s, [leg], left)
