"""The picture of a token for link previews: its price, change and candles, as SVG.

The SVG has no styles and one font, so that a rasteriser without a browser can draw it.  It has the
size PIXELS and light colours.  Averages, RSI and MACD are omitted, because everyone may see the
picture.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_S, SECOND_MS, utc
from mintscope.site.chart import (
    BODY,
    Axis,
    ChartPoint,
    axis_of,
    is_filled,
    price_pane,
    stepped,
    time_marks,
    volume_top,
)
from mintscope.site.figures import ends_of, nice_steps, percent_text, short_price
from mintscope.site.page import utc_text

PIXELS: Final = (1200, 630)
FONT: Final = "DejaVu Sans"
NAME_MAX: Final = 24  # the most characters; longer names are truncated
PLOT: Final = (48, 1060)  # left and right edges, in pixels
PRICES: Final = (164, 468)  # top and bottom edges of the candles, in pixels
VOLUMES: Final = (484, 548)
INK: Final = "#16202b"
QUIET: Final = "#566472"
LINE: Final = "#dde3e9"
RISE: Final = "#0a7d55"
FALL: Final = "#b3372f"
JOINED: Final = "#a8b3bf"  # line of the last price
BODY_MIN: Final = 2.5  # the least height and width of a candle's body, in pixels
NOTHING_YET: Final = "No candles yet"


class PictureFacts(NamedTuple):
    """The facts of a picture: the price is as of *slot*, and *change* comes from the token list.

    symbol, name   texts without unsafe characters; None if the chain has none
    usd            price in USD
    change         price change within a day, as a fraction; None if unknown
    as_of          block time of *slot*
    timeframe      name of the timeframe on pages, such as 5m
    host           host of the site
    is_young       whether *change* is since the first price, which is younger than a day
    """

    mint: Mint
    symbol: str | None
    name: str | None
    usd: float
    change: float | None
    slot: Slot
    as_of: UnixS
    timeframe: str
    host: str
    is_young: bool = False


def draw_picture(facts: PictureFacts, points: Sequence[ChartPoint], width_s: int) -> str:
    """Return a picture as SVG: *facts* as text, and *points* as candles with their volumes.

    points    candles, oldest first
    width_s   width of a candle in seconds
    """
    width, height = PIXELS
    axis = axis_of(points, width_s)
    parts = [
        Markup('<rect x="0" y="0" width="{}" height="{}" fill="#ffffff"/>').format(width, height),
        *_head(facts, points),
        *_grid(points, width_s),
        _filled(points, axis),
        *_candles(points, axis),
        *_volumes(points, axis),
        _text("as-of", (PLOT[0], height - 26), 20, _as_of(facts), QUIET),
        _text("host", (width - 40, height - 26), 20, facts.host, QUIET, "end"),
    ]
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        ' font-family="{font}">{parts}</svg>'
    ).format(w=width, h=height, font=FONT, parts=Markup("").join(parts))


def title_of(facts: PictureFacts) -> str:
    """Return the symbol, or else the name of the token, or else the shortened mint.

    A symbol or name with characters that the font lacks is skipped; a long one is cut.
    """
    for text in (facts.symbol, facts.name):
        if text and _is_drawn(text):
            return _cut(text)
    return ends_of(facts.mint)


def _head(facts: PictureFacts, points: Sequence[ChartPoint]) -> Iterator[Markup]:
    left, _ = PLOT
    title = title_of(facts)
    yield _text("title", (left, 78), 44, title, INK)
    below = [ends_of(facts.mint)] if title != ends_of(facts.mint) else []
    if facts.name and _is_drawn(facts.name) and facts.name != title:
        below.insert(0, _cut(facts.name))
    yield _text("name", (left, 112), 22, " \N{MIDDLE DOT} ".join(below), QUIET)
    right = PIXELS[0] - 40
    yield _text("usd", (right, 82), 54, f"${short_price(facts.usd)}", INK, "end")
    last = points[-1].t if points else facts.as_of
    if facts.as_of - last >= DAY_S:
        moment = utc(UnixMs(last * SECOND_MS))
        quiet = f"Last trade {moment.day} {moment:%b %Y}"
        yield _text("change", (right, 122), 28, quiet, QUIET, "end")
    elif facts.change is not None:
        span = "since its first price" if facts.is_young else "in 24h"
        shown = f"{percent_text(facts.change)} {span}"
        colour = RISE if facts.change > 0 else FALL if facts.change < 0 else QUIET
        yield _text("change", (right, 122), 28, shown, colour, "end")


def _grid(points: Sequence[ChartPoint], width_s: int) -> Iterator[Markup]:
    left, right = PLOT
    pane = price_pane(points, *PRICES)
    for value in nice_steps(pane.low, pane.high, 5) if points else ():
        y = pane.y(value)
        yield _path(f"M{left} {y:.1f}H{right}", LINE)
        yield _text("tick", (right + 10, y + 6), 18, short_price(value), QUIET)
    yield _path(f"M{left} {VOLUMES[1]}H{right}", LINE)
    step = (right - left) / axis_of(points, width_s).spans
    for place, clock in time_marks(points, width_s):
        x = left + place * step
        if left + 30 < x < right - 30:  # keeps the text within the plot
            yield _text("time", (x, VOLUMES[1] + 24), 18, clock, QUIET, "middle")
    if not points:
        middle = ((left + right) / 2, sum(PRICES) / 2)
        yield _text("none", middle, 28, NOTHING_YET, QUIET, "middle")


def _filled(points: Sequence[ChartPoint], axis: Axis) -> Markup:
    if not is_filled(points, axis):
        return Markup("")
    pane = price_pane(points, *PRICES)
    heights = (pane.y(each.close) for each in points)
    return _path(stepped(list(zip(_middles(axis), heights, strict=True))), JOINED)


def _candles(points: Sequence[ChartPoint], axis: Axis) -> Iterator[Markup]:
    pane = price_pane(points, *PRICES)
    for colour in (RISE, FALL):
        wicks = []
        bodies = []
        for x, each in zip(_middles(axis), points, strict=True):
            if (each.close >= each.open) is not (colour == RISE):
                continue
            wicks.append(f"M{x:.1f} {pane.y(each.high):.1f}V{pane.y(each.low):.1f}")
            top, bottom = sorted((pane.y(each.open), pane.y(each.close)))
            bodies.append(_bar(x, axis, top, max(bottom, top + BODY_MIN)))
        yield _path("".join(wicks), colour)
        yield _path("".join(bodies), "none", colour)


def _volumes(points: Sequence[ChartPoint], axis: Axis) -> Iterator[Markup]:
    most, _ = volume_top(points)
    top, bottom = VOLUMES
    bars = []
    for x, each in zip(_middles(axis), points, strict=True):
        size = min(1.0, (each.unsided or each.bought + each.sold) / (2 * most))
        if size > 0:
            bars.append(_bar(x, axis, bottom - size * (bottom - top), bottom))
    yield _path("".join(bars), "none", "#9fb0c0")


def _middles(axis: Axis) -> Iterator[float]:
    left, right = PLOT
    return (left + x for x in axis.of(right - left))


def _as_of(facts: PictureFacts) -> str:
    at = utc_text(UnixMs(facts.as_of * SECOND_MS))
    return f"{facts.timeframe} candles, as of {at}, slot {facts.slot:,}"


def _is_drawn(text: str) -> bool:
    """Return whether the font has all characters of *text*; the font is reduced to Latin-1."""
    return all("!" <= each <= "~" or "\xa1" <= each <= "\xff" or each == " " for each in text)


def _cut(text: str) -> str:
    return text if len(text) <= NAME_MAX else f"{text[: NAME_MAX - 1]}\N{HORIZONTAL ELLIPSIS}"


def _bar(middle: float, axis: Axis, top: float, bottom: float) -> str:
    width = max(BODY_MIN, BODY * (PLOT[1] - PLOT[0]) / axis.spans)
    return f"M{middle - width / 2:.1f} {top:.1f}h{width:.1f}V{bottom:.1f}h{-width:.1f}z"


def _path(drawn: str, stroke: str, fill: str = "none") -> Markup:
    if not drawn:
        return Markup("")
    return Markup('<path d="{}" stroke="{}" stroke-width="1.5" fill="{}"/>').format(
        drawn, stroke, fill
    )


def _text(  # noqa: PLR0913, PLR0917 - one argument for each attribute
    kind: str,
    place: tuple[float, float],
    size: int,
    text: str,
    colour: str,
    anchor: str = "start",
) -> Markup:
    return Markup(
        '<text class="{}" x="{:.1f}" y="{:.1f}" font-size="{}" fill="{}" text-anchor="{}">{}</text>'
    ).format(kind, *place, size, colour, anchor, text)
