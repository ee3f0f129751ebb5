"""A report, its candles and swaps, as the template of the page has them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from markupsafe import Markup

from mintscope.base.primitives import MICRO_USD, UnixMs
from mintscope.base.solana import (
    CASH,
    JITOSOL,
    JUPSOL,
    JUPUSD,
    MSOL,
    PYUSD,
    USD1,
    USDC,
    USDG,
    USDS,
    USDT,
    WSOL,
)
from mintscope.base.time import SECOND_MS
from mintscope.core.market.basis.price_basis import Confidence
from mintscope.core.market.listing.listed import ListLine
from mintscope.core.market.log import SwapDetail
from mintscope.core.market.report import CANDLES_MIN, Price
from mintscope.core.market.series.store import LoggedSwap
from mintscope.core.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe
from mintscope.edges.web.figures.chart import ChartPoint, draw_chart
from mintscope.edges.web.figures.numbers import (
    dollars,
    no_value,
    percent,
    short_amount,
    short_price,
)
from mintscope.edges.web.token.matrix import NAMES, WINDOWS, levels_of, rows_of, shares_of
from mintscope.edges.web.token.reading import ToldReport, last_trade

LISTED: Final = 24  # candles of the table
QUOTES: Final = {
    WSOL: "SOL",
    USDC: "USDC",
    USDT: "USDT",
    PYUSD: "PYUSD",
    USDS: "USDS",
    USD1: "USD1",
    USDG: "USDG",
    JUPUSD: "JupUSD",
    CASH: "CASH",
    JITOSOL: "JitoSOL",
    MSOL: "mSOL",
    JUPSOL: "jupSOL",
}
MINT_ENDS: Final = 4  # characters of a mint that has no name here, at each end


class ShownSwap(NamedTuple):
    """A swap as a line of the table; amounts in whole tokens, None where decimals are not known."""

    at: UnixMs
    side: str
    usd: float | None
    amount: str | None
    paid: str
    program: str
    signature: str


def shown_report(
    told: ToldReport,
    points: Sequence[ChartPoint],
    swaps: Sequence[LoggedSwap],
    timeframe: Timeframe,
) -> dict[str, Any]:
    """Return what the template needs to show numbers."""
    report = told.report
    levels = levels_of(told.report, timeframe)
    lines = {each.name: each.usd for each in levels if each.usd is not None}
    traded_at = last_trade(points, swaps)
    return {
        "price": report.price,
        "slot": told.slot,
        "age_ms": told.age_ms,
        "as_of": UnixMs(report.data_span.to * SECOND_MS),
        "since": UnixMs(report.data_span.from_ * SECOND_MS),
        "counts": report.data_span.candle_counts,
        "minutes_min": CANDLES_MIN,
        "timeframes": [(each.value, NAMES[each]) for each in TIMEFRAMES],
        "rows": list(rows_of(report)),
        "shares": list(shares_of(report, traded_at)),
        "windows": {field: span_s for field, _, span_s in WINDOWS},
        "last_trade": traded_at,
        "levels": levels,
        "chart": draw_chart(points, lines, WIDTH_S[timeframe], _described(points, timeframe)),
        "points": msgspec.json.encode(points).decode(),
        "candles": list(reversed(points[-LISTED:])),
        "swaps": list(shown_swaps(swaps)),
    }


def figures_of(line: ListLine) -> Mapping[str, Markup]:
    """Return what the list says of a token, by the names of the places on its page."""
    m5, h1, d1 = map(percent, line.changes)
    return {
        "m5": m5,
        "h1": h1,
        "d1": d1,
        "volume": dollars(line.volume / MICRO_USD),
        "swaps": Markup(f"{line.swaps:,}"),  # noqa: S704 - a number
        "cap": dollars(line.market_cap),
        "confidence": confidence_of(line.price),
        "liquidity": dollars(None if line.price is None else line.price.liquidity_usd),
    }


def confidence_of(price: Price | None) -> Markup:
    """Return how good *price* is as HTML, with what it rests on when it is pointed at."""
    if price is None:
        return no_value()
    facts = []
    if price.pools:
        agree = "1 pool agrees" if price.pools == 1 else f"{price.pools} pools agree"
        facts = [agree, f"set in {price.pool}"]
    if price.age_ms is not None:
        facts.append(f"{price.age_ms // SECOND_MS:,} s before the newest final block")
    if price.rejected_share_h1:
        facts.append(f"{price.rejected_share_h1:.0%} of the hour's volume was at rejected prices")
    tone = "unsure" if price.confidence is Confidence.LOW else "number"
    return Markup('<span class="{}" title="{}">{}</span>').format(
        tone, "; ".join(facts), price.confidence.value
    )


def _described(points: Sequence[ChartPoint], timeframe: Timeframe) -> str:
    """Return what the chart shows, for those who do not see it."""
    if not points:
        return "There is no candle yet."
    low = min(p.low for p in points)
    high = max(p.high for p in points)
    first = points[0].open
    last = points[-1].close
    moved = percent(last / first - 1.0).striptags().replace("\N{NO-BREAK SPACE}", " ")
    return (
        f"{len(points)} candles of {NAMES[timeframe]}: from ${short_price(first)} to"
        f" ${short_price(last)}, {moved}; lowest ${short_price(low)}, highest ${short_price(high)}."
        " The newest are in the table below."
    )


def shown_swaps(swaps: Sequence[LoggedSwap]) -> Iterator[ShownSwap]:
    """Yield *swaps* as lines, without those that were logged without their detail."""
    for one in swaps:
        swap = one.swap
        detail = one.swap.detail
        if detail is None:
            continue
        price = swap.price_usd if swap.offered is None else swap.offered[0]
        amount = None
        if detail.decimals is not None:
            amount = short_amount(detail.amount / 10**detail.decimals)
        yield ShownSwap(
            at=UnixMs(one.time * SECOND_MS),
            side="buy" if swap.is_buy else "sell",
            usd=price,
            amount=amount,
            paid=_paid(detail),
            program=detail.program,
            signature=detail.signature,
        )


def _paid(detail: SwapDetail) -> str:
    """Return how much of the quote was paid or got, with its name."""
    mint = detail.quote
    name = QUOTES.get(mint, f"{mint[:MINT_ENDS]}...{mint[-MINT_ENDS:]}")
    if detail.quote_decimals is None:
        return name
    return f"{short_amount(detail.quote_amount / 10**detail.quote_decimals)} {name}"
