"""The pools of a token on its page, with the numbers of the API."""

from collections.abc import Sequence
from typing import NamedTuple

from mintscope.kit.primitives import MICRO_USD, Mint
from mintscope.market.series.pools import DAY_SPANS_S, PoolNow, SeriesReader, pools_of
from mintscope.market.standings import unpack
from mintscope.site.token.shown import quote_name

POOLS_SHOWN = 5
TRADE_USD = 1_000


class PoolShown(NamedTuple):
    """A pool as a table row; a purchase of TRADE_USD raises the price by the fraction *move*."""

    pool: str
    venue: str
    quote: str
    weight: float
    quote_usd: float | None
    day_usd: float | None
    move: float | None
    is_estimate: bool


async def read_pools(series: SeriesReader, mint: Mint) -> Sequence[PoolShown]:
    """Return up to POOLS_SHOWN pools of *mint*, first those that most decide its price.

    The result is empty if *mint* has no final price.
    """
    kept = await series.pools(mint, DAY_SPANS_S)
    if kept is None or kept.standing is None or kept.time is None:
        return []
    found = pools_of(unpack(kept.standing), (), kept.time, kept)
    return [_line(one) for one in found[:POOLS_SHOWN]]


def _line(one: PoolNow) -> PoolShown:
    return PoolShown(
        pool=one.pool,
        venue=one.venue or "unknown",
        quote="" if one.quote is None else quote_name(Mint(one.quote)),
        weight=one.weight,
        quote_usd=one.quote_usd,
        day_usd=None if one.day is None else one.day.volume / MICRO_USD,
        move=next((each.buy for each in one.moves if each.usd == TRADE_USD), None),
        is_estimate=one.is_estimate,
    )
