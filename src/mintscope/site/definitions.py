"""Definitions of all numbers, and tables of API fields.

Background and measurements are in docs/decisions; tests check the engine against the definitions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mintscope.market.indicators import INDICATORS


class Definition(NamedTuple):
    """One indicator.

    anchor    anchor of the definition in the page's address
    fields    the indicator's fields in API responses
    reads     the meaning for a trader, in a sentence or two
    formula   formula lines, as exact as the code
    seed      the first value, and the candle at which values begin
    source    source of the convention
    """

    anchor: str
    name: str
    fields: tuple[str, ...]
    reads: str
    formula: str
    seed: str
    source: str


DEFINITIONS: Final = (
    Definition(
        "price",
        "Price",
        ("price.usd", "price.sol"),
        "The price of one whole token at its newest swap, in US dollars and in SOL, unrounded. Each"
        " pool weighs the money that stands ready in it: the least of the last half minute, and no"
        " more than its own trades show. The price is the median of the pools by weight, without"
        " pools of less than an eighth of the heaviest. A swap sets the price if it leaves its pool"
        " within 2 % of that median.",
        "price.sol = quote amount / token amount of the newest swap that sets the price\n"
        "price.usd = price.sol x SOL/USD rate in the slot of that swap\n"
        "price.usd of SOL = SOL/USD rate",
        "There is one from the first swap on that moves enough to show a price: at least 1,000"
        " units of each side and 0.0001 SOL. A pool weighs the least quote that stood in it over"
        " the last half minute, and no more than its own trades show that it takes to move it; a"
        " pool younger than the oldest one that trades weighs less in proportion. A silent one"
        " weighs an eighth for each pool that trades at prices on the other side of the median,"
        " because one sum of money can be seen in all of these, and nothing if none does; the pools"
        " on one side weigh no more than eight times the heaviest of them. A pool is silent if it"
        " has not traded for twice its usual lull (3 s at least, 9 s at most; the lull is the mean"
        " of its pauses, each counted by its length), unless every pool that would then outweigh"
        " it is younger than three lulls less 5 s (9 s at most; its age counts in proportion to its"
        " signers, up to three). A pool that the"
        " migration of a bonding curve names is as old as the curve, and takes its place. A move"
        " is the lesser of that of purchases and that of sales, so fees are not moves. The price"
        " is the median of the pools by weight, without pools that would weigh less than an eighth"
        " of the heaviest if they traded: any price between that at 49 and that at 51 % of the"
        " weight, because no depth is known better than that. A swap sets the price if it leaves"
        " its pool within 2 % of the median."
        " Three kinds of swaps set no price, because no one else could"
        " trade at theirs: exchanges of one signer in one transaction whose gain came back to the"
        " mint that they began with, over however many pools and mints; all swaps of a pool that"
        " went both ways in one transaction, by any signer; and less than ten cents that are"
        " 5 % off the last price of a pool with more than 10,000 times as much. The quote may be a"
        " dollar (USDC, USDT or another within 1 % of the median of all), SOL, a liquid staking"
        " token worth 0.8 to 2 SOL, or a token whose own price is robust: then no more counts of"
        " what stands in the pool than a tenth of what stands in the pools of that token."
        " In each pool of SOL and dollars the newest prices of its three newest signers within a"
        " minute are votes, one for each slot. A pool weighs the least dollars that stood in it"
        " meanwhile; of three pools or signers or more none has more than a third of all weight."
        " The SOL/USD rate is the median of the votes by weight. If one pool of SOL is known, the"
        " price of SOL is that of its newest swap. With four deep pools, one pool, one signer or"
        " one transaction moves the rate by less than 0.1 %. To move it by 1 % takes two pools of"
        " one's own with as much money as stands in all others, or trades by three signers in pools"
        " of half of the votes, in three slots without other trades in between.",
        "GeckoTerminal ranks pools by reserve and volume; here what stands in a pool decides,"
        " because volume costs nothing in a pool of one's own.",
    ),
    Definition(
        "confidence",
        "Confidence of a price",
        (
            "price.confidence",
            "price.liquidityUsd",
            "price.pools",
            "price.pool",
            "price.ageMs",
            "price.rejectedShareH1",
        ),
        "How good a price is: high, medium or low. Trade on a low one with care, or not at all: it"
        " costs little to move, or nothing is certain yet.",
        "agrees = counts for the price, has traded within 5 min of the newest swap, and its own\n"
        "  price is within 2 % of the price\n"
        "liquidityUsd = sum of what stands in the pools that agree, the quote alone\n"
        "high: liquidityUsd >= 100,000 and ageMs <= 5 min\n"
        "medium: liquidityUsd >= 1,000 and ageMs <= 1 h\n"
        "low: else; in the first 10 min; if pools that agree weigh no more than the others",
        "The first 10 minutes of a token are low, and those after the log of the service began."
        " The reserve of a pool is the lowest of the last half minute, and no more than its own"
        " trades show; a bonding curve counts with its virtual reserve, which was never paid in;"
        " null if no balance shows it. ageMs counts from the swap that set the price."
        " Pools are as of the newest swap. rejectedShareH1 is of what changed hands at a price"
        " within an hour; it does not change the confidence, because strangers can trade with"
        " themselves.",
        "This service. Jupiter leaves out what is not reliable; here it is said, and shown.",
    ),
    Definition(
        "candles",
        "Candles",
        ("candles", "dataSpan.candleCounts"),
        "The price within a minute, five, an hour: first, highest, lowest and last"
        " price, and the volume bought and sold.",
        "bucket = floor(block time / T)\n"
        "open = price of the first swap that sets the price, close = of the last\n"
        "high = highest, low = lowest price of such swaps\n"
        "volume = USD bought + USD sold, at prices that were not rejected",
        "A bucket without a swap that sets the price has no candle: it is skipped, not filled. The"
        " trades in it are in the wider candles, and with fill=previous in a candle of the close"
        " before: so the volumes of m1, m5, m15, m30, h1, h4 and d1 have the same sum, to the"
        " micro-dollar. A swap whose price is rejected, or whose signer bought and sold the token"
        " in one transaction, is in no volume; /swaps shows it as excludedVolume, with the reason."
        " Swaps too small to set a price count up to ten cents, in pools that count for the price."
        " The candle that is still open is part of every sequence. Swaps are ordered by slot,"
        " transaction and instruction, not by arrival.",
        "Skipping empty buckets is what GeckoTerminal and Birdeye do by default.",
    ),
    Definition(
        "ema",
        "Exponential moving average",
        ("ema9", "ema21", "ema50", "ema200"),
        "The trend: a mean of closes in which the newest weigh most. A price above its EMA 200 is"
        " in a long rise; EMA 9 crossing EMA 21 shows a turn early, and often wrongly.",
        "a = 2 / (n + 1)\nema = a x close + (1 - a) x previous ema",
        "Null below n candles. At candle n it is the mean of the first n closes.",
        "TradingView and TA-Lib seed likewise; agrees with them to 1e-9.",
    ),
    Definition(
        "rsi",
        "Relative strength index, 14",
        ("rsi",),
        "How one-sided the last moves were, from 0 to 100. Above 70 a token is called overbought,"
        " below 30 oversold; around 50 neither side leads.",
        "gain = max(close - previous close, 0), loss = max(previous close - close, 0)\n"
        "G = (13 x previous G + gain) / 14\n"
        "L = (13 x previous L + loss) / 14\n"
        "rsi = 100 x G / (G + L)",
        "Null below 15 candles. G and L begin as the means of the first 14 gains and losses. Where"
        " the price never moved (G + L = 0) it is 50: neither bought nor sold too much.",
        "J. Welles Wilder, New Concepts in Technical Trading Systems, 1978. TradingView says 100"
        " for a price that never moved; otherwise it agrees to 1e-7 points.",
    ),
    Definition(
        "macd",
        "MACD 12, 26, 9",
        ("macd.line", "macd.signal", "macd.histogram"),
        "Whether a trend gains or loses speed: the distance of two averages, and its own average."
        " A histogram that turns positive means that the rise is gaining.",
        "line = EMA 12 - EMA 26\n"
        "signal = 0.2 x line + 0.8 x previous signal\n"
        "histogram = line - signal",
        "Null below 34 candles. Each EMA begins with the mean of its own first closes; the signal"
        " with the mean of the first 9 lines.",
        "Gerald Appel. Agrees with TradingView to 1e-9 of the price; TA-Lib starts its fast EMA"
        " later and differs for about a hundred candles.",
    ),
    Definition(
        "fibonacci",
        "Fibonacci levels",
        (
            "fibonacci.swingHigh",
            "fibonacci.swingLow",
            "fibonacci.level236 to level764",
            "fibonacci.ext1272 to ext2618",
        ),
        "Prices at which a move often pauses: parts of the range of the last 100 candles, measured"
        " down from the high, and extensions up from the low.",
        "H = highest high, L = lowest low of the last 100 candles, R = H - L\n"
        "level p % = H - R x p / 100, for 23.6, 38.2, 50, 61.8, 76.4\n"
        "ext q % = L + R x q / 100, for 127.2, 161.8, 200, 261.8",
        "There from the first candle on, the open one included; with fewer than 100 candles all of"
        " them count. In a flat range all numbers are the same.",
        "A window and not a zigzag: pivots repaint, and put the price outside of their own range on"
        " a third of the candles we measured. In a fall, read level236 as 76.4 %.",
    ),
    Definition(
        "pressure",
        "Buy and sell pressure",
        ("buySellPressure.m1", "m5", "m15", "h1", "h4", "d1"),
        "The buy share of what was traded, from 0 to 1: above 0.5 buyers were busier. 0 may"
        " also mean that nothing was traded.",
        "g = W / 60, for windows W of 60 s to 86,400 s\n"
        "swaps with floor(now / g) - 60 < floor(t / g) <= floor(now / g) count\n"
        "pressure = bought / (bought + sold), in the volume of candles",
        "0 where nothing was traded in the window. The window slides: it is the only number of a"
        " report that changes without a swap.",
        "Ours. Sixty parts differ from an exact sliding window by 0.0008 at the median.",
    ),
    Definition(
        "atr",
        "Average true range, 14",
        ("atr",),
        "How far the price usually moves within a candle, in USD.",
        "range = max(high - low, |high - previous close|, |low - previous close|)\n"
        "atr = (13 x previous atr + range) / 14",
        "Begins as the mean of the first 14 true ranges; the first range is that of the second"
        " candle, so it is null below 15 candles. TradingView counts high - low of the first"
        " candle as a range, too: its first values differ, by a fourteenth less each candle.",
        "Wilder, 1978; as TA-Lib has it.",
    ),
    Definition(
        "bollinger",
        "Bollinger bands, 20",
        ("bollinger.upper", "bollinger.middle", "bollinger.lower"),
        "Where most closes lie: the mean, and two standard deviations above and below. Narrow bands"
        " often come before a large move.",
        "middle = mean of the last 20 closes\n"
        "s = standard deviation of those 20 (of the population)\n"
        "upper = middle + 2 s, lower = middle - 2 s",
        "Null below 20 candles.",
        "John Bollinger; as TradingView and TA-Lib have it.",
    ),
    Definition(
        "vwap",
        "Volume-weighted average price",
        ("vwap",),
        "The average price of a token today: price by volume, since midnight UTC.",
        "typical = (high + low + close) / 3\n"
        "tokens = volume in USD / typical\n"
        "vwap = sum of volume in USD / sum of tokens, since the day began (UTC)",
        "There from the first candle of the day on.",
        "The anchored VWAP of charts, its tokens estimated from volume in USD.",
    ),
    Definition(
        "stoch-rsi",
        "Stochastic RSI, 14, 14, 3, 3",
        ("stochRsi.k", "stochRsi.d"),
        "Where the RSI stands between its own lowest and highest of late, from 0 to 100: quicker"
        " than the RSI, and noisier.",
        "raw = 100 x (rsi - lowest of 14 rsi) / (highest - lowest)\n"
        "k = mean of the last 3 raw\nd = mean of the last 3 k",
        "raw is 50 if the last 14 RSI are the same to 1e-9.",
        "Tushar Chande and Stanley Kroll, 1994; as TradingView has it.",
    ),
    Definition(
        "parameters",
        "Indicators with parameters",
        ("values",),
        "Other indicators of GET /v1/token/{tokenAddress}/indicators: each is asked for by name,"
        " with parameters of your choice or, without them, the usual ones shown here.",
        "\n".join(f"{each.usual}: {each.description}" for each in INDICATORS.values()),
        "Null until there are as many candles as they look at. If older candles are no longer kept,"
        " null until values no longer depend on them.",
        "As TA-Lib, talipp or TradingView has each: the API page says which.",
    ),
    Definition(
        "change",
        "Change, volume and market cap of the list",
        ("change.m5", "change.h1", "change.d1", "changeSince", "volumeUsdD1", "marketCapUsd"),
        "The change of the price as a fraction: 0.05 is five percent more. The volume traded"
        " within a day, and the market capitalisation.",
        "change = newest price / newest price from before the span - 1\n"
        "volumeUsdD1 = USD bought and sold within a day\n"
        "marketCapUsd = price x supply",
        "Null if there is no price from before the span, or the chain was not asked for the"
        " supply yet. The change of a day of a younger token is since its first price, and"
        " changeSince says when that was. As of a final slot, so about a second behind reports on"
        " Alpenglow.",
        "The whole supply counts, locked or not.",
    ),
)


REF: Final = "#/components/schemas/"
CHOICES_MAX: Final = 12  # longer enumerations are shown as "string"

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a body, or one parameter of a request.

    kind         type as text, with its limits
    children     nested fields
    same_as      name of the earlier field that shows the same children; "" for none
    is_optional  whether the field may be omitted
    default      default value; "" for none
    """

    name: str
    kind: str
    meaning: str
    example: str = ""
    children: tuple["Field", ...] = ()
    same_as: str = ""
    is_optional: bool = False
    default: str = ""


class SchemaReader:
    """Reads the fields of one body; an object that was already shown is only referenced."""

    def __init__(self, components: Mapping[str, Schema]) -> None:
        self._components = components
        self._shown: dict[str, str] = {}

    def fields_of(self, schema: Schema) -> tuple[Field, ...]:
        """Return the fields of the object *schema*, or () if it is not an object."""
        if "discriminator" in schema:
            return tuple(self._of_kinds(schema["discriminator"]["propertyName"], schema["anyOf"]))
        _, shape = self._resolved(schema)
        return self._children(shape)

    def field(self, name: str, schema: Schema, *, is_optional: bool = False) -> Field:
        """Return the field *name*; *is_optional* states whether it may be omitted."""
        title, shape = self._resolved(schema)
        same_as = self._shown.get(title, "")
        if title and not same_as:
            self._shown[title] = name
        default = schema.get("default", shape.get("default"))
        return Field(
            name=name,
            kind=self.kind_of(schema),
            meaning=schema.get("description", shape.get("description", "")),
            example=_text((schema.get("examples") or [None])[0]),
            children=() if same_as else self._children(shape),
            same_as=same_as if _has_fields(shape) else "",
            is_optional=is_optional,
            default=_text(default) if default not in (None, "", []) else "",
        )

    def kind_of(self, schema: Schema) -> str:
        """Return the type of *schema* as text, with its limits."""
        if "anyOf" in schema:
            if all("const" in each for each in schema["anyOf"]):
                return " | ".join(_text(each["const"]) for each in schema["anyOf"])
            return " or ".join(dict.fromkeys(map(self.kind_of, _null_last(schema["anyOf"]))))
        if "$ref" in schema:
            schema = self._components[schema["$ref"].removeprefix(REF)]
        if "const" in schema:
            return f"always {_text(schema['const'])}"
        if "enum" in schema:
            choices = [_text(each) for each in schema["enum"]]
            return " | ".join(choices) if len(choices) <= CHOICES_MAX else "string"
        kind = str(schema.get("type", "any"))
        if kind == "array":
            items = self.kind_of(schema.get("items", {}))
            return f"array of {items}{_within(schema, 'minItems', 'maxItems', '')}"
        unit = " characters" if kind == "string" else ""
        least, most = ("minLength", "maxLength") if unit else ("minimum", "maximum")
        return f"{kind}{_within(schema, least, most, unit)}"

    def _of_kinds(self, tag: str, kinds: Sequence[Schema]) -> Iterator[Field]:
        """Yield the fields that all *kinds* share, then *tag* with its other fields by value."""
        shapes = [self._resolved(each)[1] for each in kinds]
        shared = {
            name: field
            for name, field in shapes[0]["properties"].items()
            if all(each["properties"].get(name) == field for each in shapes)
        }
        yield from self._children({**shapes[0], "properties": shared})
        alike: list[tuple[Schema, list[Schema]]] = []
        for shape in shapes:
            own = {k: v for k, v in shape["properties"].items() if k not in {*shared, tag}}
            found = next((tags for fields, tags in alike if fields["properties"] == own), None)
            if found is None:
                alike.append(({**shape, "properties": own}, [shape["properties"][tag]]))
            else:
                found.append(shape["properties"][tag])
        for fields, tags in alike:
            yield Field(
                name=tag,
                kind=" | ".join(map(self.kind_of, tags)),
                meaning=" ".join(each["description"] for each in tags),
                children=self._children(fields),
            )

    def _children(self, shape: Schema) -> tuple[Field, ...]:
        required = shape.get("required", ())
        return tuple(
            self.field(name, schema, is_optional=name not in required)
            for name, schema in shape.get("properties", {}).items()
        )

    def _resolved(self, schema: Schema) -> tuple[str, Schema]:
        """Return the name ("" for none) and the shape of *schema*, or of the items of an array.

        References are resolved.  Of alternatives, the first that is not null counts; if several are
        objects with fields, they are merged.
        """
        if "anyOf" in schema:
            choices = _null_last(schema["anyOf"])
            shapes = [self._resolved(each) for each in choices]
            objects = [shape for _, shape in shapes if _has_fields(shape)]
            return ("", _merged(objects)) if len(objects) > 1 else shapes[0]
        if schema.get("type") == "array":
            return self._resolved(schema.get("items", {}))
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(REF)
            return name, self._components[name]
        return "", schema


def every_name(fields: tuple[Field, ...]) -> Iterator[str]:
    """Yield the names of *fields* and of their nested fields."""
    for each in fields:
        yield each.name
        yield from every_name(each.children)


def _merged(shapes: list[Schema]) -> Schema:
    """Return an object with the fields of all *shapes*; a body matches one of them.

    A field is required if all shapes require it.  A field that the shapes describe differently gets
    all of the descriptions.
    """
    found: dict[str, list[Schema]] = {}
    for shape in shapes:
        for name, schema in shape["properties"].items():
            if schema not in found.setdefault(name, []):
                found[name].append(schema)
    needed = [set(shape.get("required", ())) for shape in shapes]
    return {
        "required": list(set.intersection(*needed)),
        "properties": {name: _either(schemas) for name, schemas in found.items()},
    }


def _either(schemas: list[Schema]) -> Schema:
    if len(schemas) == 1:
        return schemas[0]
    words = [str(each["description"]) for each in schemas if "description" in each]
    return {
        "anyOf": schemas,
        "description": " ".join(dict.fromkeys(words)),
        "examples": schemas[0].get("examples", []),
    }


def _has_fields(shape: Schema) -> bool:
    return bool(shape.get("properties"))


def _null_last(choices: list[Schema]) -> list[Schema]:
    return sorted(choices, key=lambda each: each.get("type") == "null")


def _text(value: object) -> str:
    """Return *value* as text, in the form used in a query."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def _within(schema: Schema, least: str, most: str, unit: str) -> str:
    low = schema.get(least)
    high = schema.get(most)
    if low is None and high is None:
        return ""
    if high is None:
        return f", {low} or more{unit}"
    if low in (None, 0) and unit:
        return f", up to {high}{unit}"
    if low == high:
        return f", {low}{unit}"
    return f", {low if low is not None else 'up'} to {high}{unit}"
