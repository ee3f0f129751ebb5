"""The report on a mint, endpoint 1 of the specification, and the interface that returns reports.

Field names are those of the specification; `rename` makes them camelCase.  The text of `about` for
a field is only for the description of the API: encoding ignores it.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import inf
from typing import Annotated, Any, Final, NamedTuple, Protocol, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import MICRO_USD, Mint, Slot, UnixS, about, on_request
from mintscope.kit.time import SECOND_MS
from mintscope.market.coverage import ReportCoverage
from mintscope.market.engine.given import Floats
from mintscope.market.engine.kernels import COUNTS, FIRST, FURTHER, READ, SHARES, SOL, USD
from mintscope.market.standings import Confidence, PriceBasis
from mintscope.solana.blocks import WSOL

EXAMPLE_POOL: Final = "8sLbNZoA1cfnvMJLPfp98ZLAnFSYCFApfJKMbiXNLwxj"


class Price(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The price of one whole token, at its newest accepted swap, and its basis."""

    usd: Annotated[float, about("US dollars for one whole token, not rounded.", 171.25)]
    sol: Annotated[float, about("SOL for one whole token, not rounded.", 1.0)]
    pool: Annotated[
        str | None,
        about(
            "The pool whose swap set the price: an address, or two vaults with + between them."
            " Null if the log does not say.",
            EXAMPLE_POOL,
        ),
    ]
    age_ms: Annotated[
        int | None,
        about(
            "Milliseconds from that swap to the block time of the last applied slot. Null if the"
            " log does not say.",
            2000,
        ),
    ]
    liquidity_usd: Annotated[
        float | None,
        about(
            "US dollars, or SOL or tokens worth so much, that stand ready to buy the token in the"
            " pools that agree on the price; a bonding curve counts with its virtual reserve,"
            " which was never paid in: 30 SOL on pump.fun. Null if no balance shows it.",
            1843210.5,
        ),
    ]
    pools: Annotated[
        int,
        about(
            "Pools that agree on the price within 2 %, the one that set it included. 0 if the log"
            " does not say.",
            3,
        ),
    ]
    confidence: Annotated[
        Confidence,
        about(
            "How good the price is. high: at least 100,000 US dollars stand in the pools that agree"
            " and it was set within 5 minutes; medium: 1,000 US dollars, and within an hour; low:"
            " else, and in the first 10 minutes of a token.",
            "high",
        ),
    ]
    rejected_share_h1: Annotated[
        float | None,
        about(
            "Part of what changed hands within an hour at prices that were rejected, 0 to 1. Null"
            " if the log does not say.",
            0.002,
        ),
    ]

    def is_too_old(self, after_s: int) -> bool:
        """Return whether the price will be too old for its confidence in *after_s* seconds."""
        age_ms = self.age_ms
        return age_ms is not None and not self.confidence.allows(age_ms / SECOND_MS + after_s)

    @classmethod
    def of(cls, usd: float, sol: float, basis: PriceBasis | None, now: UnixS) -> "Price":
        """Return a price with what it is based on, as of *now*.

        usd, sol   the price of one whole token
        basis      the pools on which it is based; None: unknown, so the confidence is low
        """
        if basis is None:
            return cls(usd, sol, None, None, None, 0, Confidence.LOW, None)
        depth = basis.depth
        return cls(
            usd,
            sol,
            basis.pool,
            max(0, now - basis.at) * SECOND_MS,
            None if depth is None else depth / MICRO_USD,
            basis.pool_count,
            basis.confidence(now),
            basis.rejected_share(now),
        )


class Macd(msgspec.Struct, frozen=True, gc=False):
    """MACD(12, 26, 9): the line, its signal and the histogram."""

    line: Annotated[float, about("EMA(12) minus EMA(26) of the closes, in US dollars.", 0.42)]
    signal: Annotated[float, about("EMA(9) of the line, in US dollars.", 0.31)]
    histogram: Annotated[float, about("Line minus signal, in US dollars.", 0.11)]


class Fibonacci(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Fibonacci levels of the newest 100 candles: retracements and extensions of the swing."""

    swing_high: Annotated[
        float, about("Highest price of the newest 100 candles, in US dollars.", 173.0)
    ]
    swing_low: Annotated[
        float, about("Lowest price of the newest 100 candles, in US dollars.", 163.0)
    ]
    level236: Annotated[
        float,
        about("Retracement of 23.6 %, measured down from the swing high, in US dollars.", 170.64),
    ]
    level382: Annotated[
        float,
        about("Retracement of 38.2 %, measured down from the swing high, in US dollars.", 169.18),
    ]
    level500: Annotated[
        float,
        about("Retracement of 50 %, measured down from the swing high, in US dollars.", 168.0),
    ]
    level618: Annotated[
        float,
        about("Retracement of 61.8 %, measured down from the swing high, in US dollars.", 166.82),
    ]
    level764: Annotated[
        float,
        about("Retracement of 76.4 %, measured down from the swing high, in US dollars.", 165.36),
    ]
    ext1272: Annotated[
        float, about("Extension of 127.2 %, measured up from the swing low, in US dollars.", 175.72)
    ]
    ext1618: Annotated[
        float, about("Extension of 161.8 %, measured up from the swing low, in US dollars.", 179.18)
    ]
    ext2000: Annotated[
        float, about("Extension of 200 %, measured up from the swing low, in US dollars.", 183.0)
    ]
    ext2618: Annotated[
        float, about("Extension of 261.8 %, measured up from the swing low, in US dollars.", 189.18)
    ]


class Named(NamedTuple):
    """A field of a report as people read it.

    name     its name
    bounds   the lowest and the highest possible value; None for a price in US dollars
    """

    name: str
    bounds: tuple[float, float] | None = None


class TimeframeIndicators(msgspec.Struct, frozen=True, gc=False):
    """The indicators of one timeframe; None: too few candles for a value."""

    # Streams, series, alerts and all descriptions take the fields from here.
    ema9: Annotated[
        float | None,
        about("EMA(9) of the closes in US dollars; null below 9 candles.", 171.1),
        Named("EMA 9"),
    ]
    ema21: Annotated[
        float | None,
        about("EMA(21) of the closes in US dollars; null below 21 candles.", 170.8),
        Named("EMA 21"),
    ]
    ema50: Annotated[
        float | None,
        about("EMA(50) of the closes in US dollars; null below 50 candles.", 170.1),
        Named("EMA 50"),
    ]
    ema200: Annotated[
        float | None,
        about("EMA(200) of the closes in US dollars; null below 200 candles.", 167.4),
        Named("EMA 200"),
    ]
    rsi: Annotated[
        float | None,
        about("RSI(14) by Wilder, 0 to 100; null below 15 candles.", 56.3),
        Named("RSI", bounds=(0.0, 100.0)),
    ]
    macd: Annotated[Macd | None, about("MACD(12, 26, 9); null below 34 candles.")]
    fibonacci: Annotated[
        Fibonacci | None, about("Fibonacci levels over the newest 100 candles; null without any.")
    ]


REPORTED: Final = TimeframeIndicators.__struct_fields__
_HINTS: Final = get_type_hints(TimeframeIndicators, include_extras=True)
NAMED: Final[Mapping[str, Named]] = {
    field: each
    for field, hint in _HINTS.items()
    for each in hint.__metadata__
    if isinstance(each, Named)
}


def absent_indicators() -> list[tuple[str, Any, UnsetType]]:
    """Return the fields of `TimeframeIndicators` as arguments of msgspec's `defstruct`.

    Each field can be UNSET.
    """
    return [
        (name, Annotated[(hint.__origin__ | UnsetType, *hint.__metadata__)], UNSET)
        for name, hint in _HINTS.items()
    ]


class Pressure(msgspec.Struct, frozen=True, gc=False):
    """The buy volume of each span divided by its total volume, 0 to 1; 0 without trades."""

    m1: Annotated[
        float,
        about("Buy volume over total volume of the last minute, 0 to 1; 0 without trades.", 0.52),
    ]
    m5: Annotated[
        float,
        about(
            "Buy volume over total volume of the last 5 minutes, 0 to 1; 0 without trades.", 0.49
        ),
    ]
    m15: Annotated[
        float,
        about(
            "Buy volume over total volume of the last 15 minutes, 0 to 1; 0 without trades.", 0.55
        ),
    ]
    h1: Annotated[
        float,
        about("Buy volume over total volume of the last hour, 0 to 1; 0 without trades.", 0.51),
    ]
    h4: Annotated[
        float,
        about("Buy volume over total volume of the last 4 hours, 0 to 1; 0 without trades.", 0.53),
    ]
    d1: Annotated[
        float,
        about("Buy volume over total volume of the last 24 hours, 0 to 1; 0 without trades.", 0.5),
    ]


class Indicators(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The indicators of each timeframe, and the buy share of the volume by window."""

    m1: Annotated[TimeframeIndicators, about("From candles of one minute.")]
    m5: Annotated[TimeframeIndicators, about("From candles of 5 minutes.")]
    m15: Annotated[TimeframeIndicators, about("From candles of 15 minutes.")]
    h1: Annotated[TimeframeIndicators, about("From candles of one hour.")]
    buy_sell_pressure: Annotated[Pressure, about("Buy share of the volume, by window.")]
    s15: Annotated[
        TimeframeIndicators | UnsetType,
        on_request("From the newest 60 spans of 15 seconds; if asked for."),
    ] = UNSET
    m30: Annotated[
        TimeframeIndicators | UnsetType, on_request("From candles of 30 minutes; if asked for.")
    ] = UNSET
    h4: Annotated[
        TimeframeIndicators | UnsetType, on_request("From candles of 4 hours; if asked for.")
    ] = UNSET
    d1: Annotated[
        TimeframeIndicators | UnsetType, on_request("From candles of a day; if asked for.")
    ] = UNSET


class CandleCounts(msgspec.Struct, frozen=True, gc=False):
    """The number of candles of each timeframe since tracking began, open candles included."""

    m1: Annotated[int, about("Candles of one minute.", 4320)]
    m5: Annotated[int, about("Candles of 5 minutes.", 864)]
    m15: Annotated[int, about("Candles of 15 minutes.", 288)]
    h1: Annotated[int, about("Candles of one hour.", 72)]


class DataSpan(
    msgspec.Struct, frozen=True, gc=False, rename={"from_": "from", "candle_counts": "candleCounts"}
):
    """The span of time that the data cover, and the number of candles."""

    from_: Annotated[
        UnixS,
        about(
            "Start of the first minute candle or, if candles were imported, of the first of these,"
            " Unix seconds.",
            1763200800,
        ),
    ]
    to: Annotated[UnixS, about("Block time of the last applied slot, Unix seconds.", 1763460000)]
    candle_counts: Annotated[CandleCounts, about("Candles since tracking began.")]


class TokenReport(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """`data` of GET /v1/token/{tokenAddress}."""

    token: Annotated[Mint, about("The mint that was asked for, base58.", WSOL)]
    price: Annotated[Price, about("Price at the newest accepted swap.")]
    indicators: Annotated[Indicators, about("Indicators by timeframe, and the pressure.")]
    data_span: Annotated[DataSpan, about("How far the data reaches.")]
    coverage: Annotated[
        ReportCoverage | UnsetType,
        about(
            "How much of what was exchanged was read lately; absent until it has been counted"
            " after a start."
        ),
    ] = UNSET


CANDLES_MIN: Final = 9
NO_FRAMES: Final[Mapping[str, Floats]] = {}


class ReportKind(NamedTuple):
    """The options by which reports differ.

    is_partial   whether a report is made from the first priced swap on, with null for numbers that
                 cannot be computed yet
    is_closed    whether indicators leave out the candles that are still open, whose values can
                 change later
    timeframes   timeframes in addition to those of every report, such as m30; each is an
                 `AskedFrame`
    """

    is_partial: bool = False
    is_closed: bool = False
    timeframes: tuple[str, ...] = ()


PLAIN: Final = ReportKind()
"""The report of the specification."""
PARTIAL: Final = ReportKind(is_partial=True)
"""The report that pages show."""


def token_report(  # noqa: PLR0913 - one argument for each part
    mint: Mint,
    values: Floats,
    now: UnixS,
    coverage: ReportCoverage | UnsetType = UNSET,
    *,
    basis: PriceBasis | None = None,
    is_partial: bool = False,
    frames: Mapping[str, Floats] = NO_FRAMES,
) -> TokenReport:
    """Return the report of *mint* as of *now*.

    values      the numbers of the report, in the order of the market's snapshot
    coverage    the share of exchanges that was read; left out if UNSET
    basis       the basis of the price; None if the log lacks it
    is_partial  whether a report with fewer than 9 m1 candles is allowed
    frames      the values of the additional timeframes that were requested, by name

    Raises InsufficientData without a priced swap, and with too few candles.
    """
    candles = values.item(COUNTS)
    if candles < (1 if is_partial else CANDLES_MIN):
        raise InsufficientData(
            f"{candles:.0f} of {CANDLES_MIN} minutes with trades so far: a report needs"
            f" trades of this token in {CANDLES_MIN} different minutes since tracking began."
        )
    return report_of(mint, values, now, coverage, basis, frames=frames)


def report_of(  # noqa: PLR0913 - one argument for each part
    mint: Mint,
    values: Floats,
    now: UnixS,
    coverage: ReportCoverage | UnsetType = UNSET,
    basis: PriceBasis | None = None,
    *,
    frames: Mapping[str, Floats] = NO_FRAMES,
) -> TokenReport:
    """Return the report of *mint* even if it has few candles; it must have had a priced swap.

    The parameters are those of `token_report`.
    """
    v = values.tolist()
    m1, m5, m15, h1 = map(int, v[COUNTS:FIRST])
    indicators = Indicators(
        timeframe_of(v, 0),
        timeframe_of(v, READ),
        timeframe_of(v, 2 * READ),
        timeframe_of(v, 3 * READ),
        Pressure(*v[SHARES:COUNTS]),
    )
    if frames:
        further = {name: timeframe_of(each.tolist()) for name, each in frames.items()}
        indicators = msgspec.structs.replace(indicators, **further)
    return TokenReport(
        mint,
        Price.of(v[USD], v[SOL], basis, now),
        indicators,
        DataSpan(UnixS(int(v[FIRST])), now, CandleCounts(m1, m5, m15, h1)),
        coverage,
    )


def timeframe_of(v: Sequence[float], at: int = 0) -> TimeframeIndicators:
    """Return the indicators of one timeframe; their numbers begin at index *at* of *v*.

    A NaN becomes None.
    """
    ema9, ema21, ema50, ema200, rsi, line, signal, histogram = v[at : at + 8]
    # Each comparison is False for NaN.  Only the parts of MACD can be negative.
    return TimeframeIndicators(
        ema9 if ema9 >= 0.0 else None,
        ema21 if ema21 >= 0.0 else None,
        ema50 if ema50 >= 0.0 else None,
        ema200 if ema200 >= 0.0 else None,
        rsi if rsi >= 0.0 else None,
        Macd(line, signal, histogram) if histogram > -inf else None,
        Fibonacci(*v[at + 8 : at + FURTHER]) if v[at + 8] >= 0.0 else None,
    )


class ReadReport(msgspec.Struct, frozen=True, gc=False):
    """A report, or another answer that is sold, and its age.

    body          the report as JSON, ready to send
    slot          the slot as of which the answer was made
    age_ms        the age of the data, by the market's clock; 0 while files are replayed
    tag           the entity tag (ETag) of the report, the same in every process; b"" for an answer
                  without a tag, such as a past report or a redelivered one.  It does not depend on
                  coverage, nor on the end of the data span and the age of the price, which change
                  with the clock
    price_age_ms  the age of the swap that set the price, as of *slot*; None if it is unknown
    """

    body: bytes
    slot: Slot
    age_ms: int
    tag: bytes = b""
    price_age_ms: int | None = None


class _Aged(msgspec.Struct, rename="camel"):
    age_ms: int | None = None


class _Priced(msgspec.Struct):
    price: _Aged | None = None


_priced: Final = msgspec.json.Decoder(_Priced)


def price_age_ms_in(body: bytes) -> int | None:
    """Return `price.ageMs` of the report in the JSON *body*; None if it is null or missing."""
    try:
        price = _priced.decode(body).price
    except msgspec.DecodeError:  # another shape, without a price
        return None
    return None if price is None else price.age_ms


def tag_of(values: Floats, price: Price, frames: Mapping[str, Floats] = NO_FRAMES) -> bytes:
    """Return the weak entity tag (ETag) of a report with the numbers *values*.

    frames   the numbers of the timeframes that were requested
    """
    parts = blake2b(values.tobytes(), digest_size=12)
    for name, each in frames.items():
        parts.update(name.encode() + each.tobytes())
    # Without the age of the price, which changes with the clock; its confidence shows a great age.
    parts.update(
        repr((price.pool, price.liquidity_usd, price.pools, price.confidence.value)).encode()
    )
    parts.update(repr(price.rejected_share_h1).encode())
    # Weak, because reports with the same tag may differ in parts that the tag ignores.
    return b'W/"%b"' % parts.hexdigest().encode()


class Reports(Protocol):
    """Makes reports of tracked mints as of the newest data."""

    async def read(self, mint: Mint, kind: ReportKind = PLAIN) -> ReadReport:
        """Return the report of *mint* with the options *kind*, as of the newest applied slot.

        Raises TokenNotFound if *mint* is not tracked.  Raises InsufficientData if it has no priced
        swap or, unless *kind* is partial, fewer than 9 m1 candles.  Raises ServiceUnavailable if
        the data are still being loaded, or cannot be read.
        """

    def ready(self, mint: str) -> ReadReport | None:
        """Return the report of *mint* without options, or None if it is not ready in memory."""
