"""Candles in another unit: in SOL, at its rate when each swap was made, or as market caps."""

from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from mintscope.kit.primitives import UnixMs
from mintscope.market.mint_facts import MintFacts
from mintscope.market.series.pools import SeriesCandle, UnpricedVolume
from mintscope.market.series.series import BUCKET, Series

PriceUnit: TypeAlias = Literal["usd", "sol", "marketcap"]


class Supply(NamedTuple):
    """The supply of a mint, and the time at which a node returned it.

    tokens   whole tokens
    text     the same number as an exact decimal
    """

    tokens: float
    text: str
    read_at_ms: UnixMs


def supply_of(facts: MintFacts | None) -> Supply | None:
    """Return the supply of a mint, as a number and as text.

    None if *facts* is None, or if the supply is 0, as for wrapped SOL.
    """
    if facts is None or not facts.supply:
        return None
    # At least one digit stays before the point.
    digits = str(facts.supply).zfill(facts.decimals + 1)
    text = digits
    if facts.decimals:
        text = f"{digits[: -facts.decimals]}.{digits[-facts.decimals :]}".rstrip("0").rstrip(".")
    return Supply(facts.supply / 10**facts.decimals, text, facts.read_at_ms)


def priced_in(series: Series, unit: PriceUnit, supply: Supply | None) -> Series:
    """Return *series* with its prices in *unit*.

    In SOL, a candle without prices in SOL becomes an unpriced span with the same volume, so that it
    is not missing where gaps are filled.

    supply   the number of tokens; required for market capitalisations
    """
    if unit == "usd":
        return series
    if unit == "sol":
        return _in_sol(series)
    assert supply is not None, "expected a supply"
    return series._replace(candles=[_times(each, supply.tokens) for each in series.candles])


def _in_sol(series: Series) -> Series:
    candles = []
    unpriced = [*series.unpriced]
    for each in series.candles:
        prices = (each.open_sol, each.high_sol, each.low_sol, each.close_sol)
        if None in prices:
            volumes = each.buy_volume, each.sell_volume, each.imported_volume
            unpriced.append(UnpricedVolume(each.bucket, *volumes))
        else:
            in_sol = dict(zip(("open", "high", "low", "close"), prices, strict=True))
            candles.append(replace(each, **in_sol))
    return series._replace(candles=candles, unpriced=sorted(unpriced, key=BUCKET))


def _times(candle: SeriesCandle, tokens: float) -> SeriesCandle:
    names = ("open", "high", "low", "close", "open_sol", "high_sol", "low_sol", "close_sol")
    prices = {name: getattr(candle, name) for name in names}
    return replace(
        candle, **{name: None if each is None else each * tokens for name, each in prices.items()}
    )
