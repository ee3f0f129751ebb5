"""Traders of a mint, of the swaps that are kept: facts by definition, and no score.

Trader        who signs: known by the beginning of the address, as the log keeps it
Flow          what changed hands in USD, also where it counts for no volume
Concentration the part of all flow that is of the one trader, or the ten, with the most
Realised      what a trader gained on tokens that were bought and sold within the kept swaps: as
              many as both, times the mean price of a sale less that of a purchase; fees of the
              network are left out
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mintscope.base.primitives import MICRO_USD, UnixS
from mintscope.base.time import MINUTE_S
from mintscope.core.market.log import PricedSwap
from mintscope.core.market.series.store import LoggedSwap

NEWEST_S: Final = 5 * MINUTE_S
TOP: Final = 10


class TraderNow(NamedTuple):
    """A trader: micro-USD and raw amounts of the token; realised in USD, None without both sides.

    first_at, last_at   of the kept swaps
    """

    trader: str
    bought: int
    sold: int
    bought_amount: int
    sold_amount: int
    swaps: int
    realised_usd: float | None
    first_at: UnixS
    last_at: UnixS


class Crowd(NamedTuple):
    """How many trade: traders who bought, who sold, who did either; micro-USD; concentration.

    top_share, top10_share   0 to 1; None if nothing changed hands
    """

    buyers: int
    sellers: int
    traders: int
    swaps: int
    flow: int
    top_share: float | None
    top10_share: float | None


@dataclass(slots=True)
class _Sums:
    first_at: UnixS
    last_at: UnixS
    bought: int = 0
    sold: int = 0
    bought_amount: int = 0
    sold_amount: int = 0
    buys: int = 0
    sells: int = 0

    @property
    def flow(self) -> int:
        return self.bought + self.sold


def top_traders(swaps: Sequence[LoggedSwap], limit: int) -> list[TraderNow]:
    """Return up to *limit* traders of *swaps*, newest first, those with the most flow first."""
    sums = _sums(swaps)
    order = sorted(sums, key=lambda trader: (-sums[trader].flow, trader))
    return [_trader(trader, sums[trader]) for trader in order[:limit]]


def crowd_of(swaps: Iterable[LoggedSwap]) -> Crowd:
    """Return how many trade in *swaps*."""
    sums = _sums(swaps).values()
    flows = sorted((each.flow for each in sums), reverse=True)
    flow = sum(flows)
    return Crowd(
        buyers=sum(each.buys > 0 for each in sums),
        sellers=sum(each.sells > 0 for each in sums),
        traders=len(sums),
        swaps=sum(each.buys + each.sells for each in sums),
        flow=flow,
        top_share=flows[0] / flow if flow else None,
        top10_share=sum(flows[:TOP]) / flow if flow else None,
    )


def newest(swaps: Iterable[LoggedSwap], now: UnixS) -> list[LoggedSwap]:
    """Return those of *swaps* that are of the last five minutes."""
    return [one for one in swaps if one.time > now - NEWEST_S]


def _sums(swaps: Iterable[LoggedSwap]) -> dict[str, _Sums]:
    """Return the sums of each trader; swaps of logs that name no signer are left out."""
    found: dict[str, _Sums] = {}
    for one in swaps:
        evidence = one.swap.evidence
        if evidence is None or not evidence.signer:
            continue
        sums = found.setdefault(evidence.signer, _Sums(one.time, one.time))
        sums.first_at = min(sums.first_at, one.time)
        sums.last_at = max(sums.last_at, one.time)
        _add(sums, one.swap, evidence.flow)
    return found


def _add(sums: _Sums, swap: PricedSwap, flow: int) -> None:
    amount = 0 if swap.detail is None else swap.detail.amount
    if swap.is_buy:
        sums.buys += 1
        sums.bought += flow
        sums.bought_amount += amount
    else:
        sums.sells += 1
        sums.sold += flow
        sums.sold_amount += amount


def _trader(trader: str, sums: _Sums) -> TraderNow:
    realised = None
    if sums.bought_amount and sums.sold_amount:
        both = min(sums.bought_amount, sums.sold_amount)
        gained = sums.sold / sums.sold_amount - sums.bought / sums.bought_amount
        realised = both * gained / MICRO_USD
    return TraderNow(
        trader=trader,
        bought=sums.bought,
        sold=sums.sold,
        bought_amount=sums.bought_amount,
        sold_amount=sums.sold_amount,
        swaps=sums.buys + sums.sells,
        realised_usd=realised,
        first_at=sums.first_at,
        last_at=sums.last_at,
    )
