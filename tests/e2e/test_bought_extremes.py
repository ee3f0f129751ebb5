"""Prices at which only the attacker could trade, through block files, ingest and the API.

Each attack has its own token, and a twin with the same honest trades: candles of all widths and
indicators of both must be equal to the last bit.  `/swaps` gives the reason why each leg does
not count.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from prove.prices.market import SOL_USD, Pool, Trade, crowd
from replayed import answered, replayed
from traded_pools import Leg, Together, mint_of

from mintscope.solana.blocks import USDC, WSOL
from support.scenes.service import Service, bearer

STORM_IS_FULL: Final = os.environ.get("STORM") == "full"  # noqa: TID251 - only how many
SEEDS: Final = range(1, 26 if STORM_IS_FULL else 3)
SECONDS: Final = 1_500
CREDITS: Final = 100_000
RATE_POOL: Final = "rate-0 of SOL"


class Attack(NamedTuple):
    """The transactions of an attack, and the reasons that `/swaps` must give for its swaps."""

    transactions: Sequence[Together]
    reasons: set[str]


class Attacker:
    """Makes transactions against the token of one market."""

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self._mint = mint_of(name)
        self.honest = f"honest of {name}"
        self.own = f"private of {name}"
        self.factor = random.choice([random.uniform(1.2, 12), 1 / random.uniform(1.2, 12)])
        self.usd = 10 ** random.uniform(0, 5)
        self.at_s = random.randrange(900, SECONDS - 60)

    def buys(self, usd: float, price: float, *, pool: str = "", signer: str = "x") -> Leg:
        """Return a purchase of tokens at *price* for *usd* dollars in total, paid in SOL."""
        sol = round(usd / SOL_USD * 10**9)
        tokens = round(usd / price * 10**6)
        return Leg(pool or self.honest, signer, (WSOL, sol), (self._mint, tokens))

    def sells(
        self, usd: float, price: float, *, pool: str = "", signer: str = "x", quote: str = WSOL
    ) -> Leg:
        """Return a sale of tokens for *usd* dollars in total, at *price* each, for SOL or USDC."""
        paid = round(usd / SOL_USD * 10**9) if quote == WSOL else round(usd * 10**6)
        tokens = round(usd / price * 10**6)
        return Leg(pool or self.honest, signer, (self._mint, tokens), (quote, paid))

    def at_once(self, *legs: Leg, later_s: int = 0) -> Together:
        """Return a transaction of *legs*, sent *later_s* seconds after the attack begins."""
        left = {WSOL: round(100_000 / SOL_USD * 10**9), self._mint: 10**11, USDC: 10**12}
        return Together(self.at_s + later_s, legs, left)

    def round_trip(self) -> Attack:
        """Return a purchase far from the price and a sale back, in the price pool."""
        legs = self.buys(self.usd, self.factor), self.sells(self.usd * 0.99, self.factor * 0.99)
        return Attack([self.at_once(*legs)], {"roundTrip"})

    def sandwich(self) -> Attack:
        """Return trades before and after the trade of a victim, who signs the same transaction."""
        legs = (
            self.buys(self.usd, self.factor),
            self.buys(self.usd / 3, self.factor * 1.5, signer="victim"),
            self.sells(self.usd * 1.1, self.factor * 1.4),
        )
        return Attack([self.at_once(*legs)], {"roundTrip"})

    def two_keys(self) -> Attack:
        """Return an attack: a purchase far from the price by one key, and a sale by another."""
        legs = (
            self.buys(self.usd, self.factor),
            self.sells(self.usd * 0.99, self.factor * 0.99, signer="x too"),
        )
        return Attack([self.at_once(*legs)], {"roundTrip"})

    def two_pools(self) -> Attack:
        """Return an attack: a purchase in the price pool, and a sale in a private pool."""
        legs = (
            self.buys(self.usd, self.factor),
            self.sells(self.usd * 0.9, self.factor, pool=self.own),
        )
        return Attack([self.at_once(*legs)], {"roundTrip"})

    def three_mints(self) -> Attack:
        """Return an exchange of SOL for the token, the token for dollars, and dollars for SOL."""
        sol = round(self.usd / SOL_USD * 10**9)
        home = Leg(RATE_POOL, "x", (USDC, round(self.usd * 10**6)), (WSOL, sol))
        legs = (
            self.buys(self.usd, self.factor),
            self.sells(self.usd, self.factor * 1.01, pool=self.own, quote=USDC),
            home,
        )
        return Attack([self.at_once(*legs)], {"roundTrip"})

    def cents(self) -> Attack:
        """Return an attack of nine purchases of cents, far from the price, in the price pool."""
        few = [
            self.at_once(
                self.buys(self._random.uniform(0.03, 0.09), self.factor, signer=f"x{n}"), later_s=n
            )
            for n in range(9)
        ]
        return Attack(few, {"otherPool"})

    def raw_units(self) -> Attack:
        """Return an attack that buys too few raw units to set a price, in its own pool."""
        few = [
            self.at_once(
                Leg(self.own, f"x{n}", (WSOL, round(usd / SOL_USD * 10**9)), (self._mint, 999)),
                later_s=n,
            )
            for n, usd in enumerate(self._random.uniform(0.03, 0.099) for _ in range(9))
        ]
        return Attack(few, {"noPrice"})

    def washed(self) -> Attack:
        """Return an attack: two keys buy for 1,500,000 USD five times, in a private pool."""
        far = [
            self.at_once(
                self.buys(1_500_000, 500.0, pool=self.own, signer=f"x{n % 2}"), later_s=2 * n
            )
            for n in range(5)
        ]
        return Attack(far, {"otherPool"})


ATTACKS: Final[dict[str, Callable[[Attacker], Attack]]] = {
    "a round trip": Attacker.round_trip,
    "a sandwich": Attacker.sandwich,
    "two keys": Attacker.two_keys,
    "two pools": Attacker.two_pools,
    "three mints": Attacker.three_mints,
    "cents": Attacker.cents,
    "raw units": Attacker.raw_units,
    "washed": Attacker.washed,
}


def honest_trades(seed: int) -> list[Trade]:
    """Return the honest trades in a pool that holds 100,000 USD."""
    return list(crowd(Random(seed), [Pool("honest", 100_000, 100_000)], end=SECONDS, every_s=3.0))


async def seen(service: Service, token: str, name: str) -> dict[str, Any]:
    """Return the candles and indicators of the token *name*, bought from the API with *token*."""
    reported: dict[str, Any] = {}
    for path in (
        *(f"candles?tf={tf}&limit=1000&fill=previous" for tf in ("m1", "m5", "m15", "h1", "d1")),
        "indicators?tf=m1&limit=1000&names=fibonacci,rsi,atr,vwap,ema9",
    ):
        url = f"/v1/token/{mint_of(name)}/{path}"
        response = await service.client.get(url, headers=bearer(token))
        assert response.status_code == 200, response.text
        data = response.json()["data"]
        reported[path] = data.get("candles") or data["points"]
    return reported


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_attack_leaves_candles_and_indicators_equal_to_those_of_the_twin(
    seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    trades = honest_trades(seed)
    attacks = {name: make(Attacker(name, random)) for name, make in ATTACKS.items()}
    together = [one for attack in attacks.values() for one in attack.transactions]
    markets = dict.fromkeys(("twin", *attacks), trades)
    wrong: list[tuple[str, object]] = []
    async with replayed(tmp_path, markets, together=together) as (service, swapped):
        token = await service.issue(CREDITS)
        twin = await seen(service, token, "twin")
        honest = {one.signature for one in swapped}
        for name, attack in attacks.items():
            lines = await answered(service, token, name)
            own = [line for line in lines if line["signature"] not in honest]
            legs = [leg for one in attack.transactions for leg in one.legs]
            assert len(own) == sum(leg.pool != RATE_POOL for leg in legs), name
            if await seen(service, token, name) != twin:
                wrong.append((name, "is not as its twin"))
            if {line["reason"] for line in own} != attack.reasons:
                wrong.append((name, [line["reason"] for line in own]))
            if not all(line["excludedVolume"] for line in own):
                wrong.append((name, "is volume"))
    assert wrong == []
