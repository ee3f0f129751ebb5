"""Request and response types of series, with the unit of each field."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mintscope.api.wire import EXAMPLE_SIGNATURE, EXAMPLE_WALLET, Wire
from mintscope.kit.primitives import on_request
from mintscope.market.indicators import INDICATORS
from mintscope.market.indicators.profile import BINS_MAX
from mintscope.market.report import absent_indicators
from mintscope.market.series.series import AVERAGES, NAMES
from mintscope.solana.blocks import USDC, WSOL

CANDLES_MAX: Final = 1_000
SWAPS_MAX: Final = 500
TIME_MAX: Final = 1 << 33  # Unix seconds: in the year 2242
POOL_LENGTH_MAX: Final = 89  # two addresses of 44 characters, joined by +
CursorText = Annotated[
    str,
    Meta(
        description="nextCursor of the page before, with the other fields as they were.",
        examples=["WyJiZWZvcmUiLCJtNSIsMTc2MzQ2MDAwMF0"],
    ),
]
NextCursor = Annotated[
    str | None,
    Meta(
        description="The cursor of the next page; null: there is none.",
        examples=["WyJiZWZvcmUiLCJtNSIsMTc2MzQ2MDAwMF0"],
    ),
]
SWAP_CURSOR: Final = "WyJzd2FwIiwzNTAwMDAwMDAsMTIsMywtMSwwXQ"
Token = Annotated[str, Meta(description="The mint of the token.", examples=[WSOL])]
Since = Annotated[
    int,
    Meta(
        ge=0,
        le=TIME_MAX,
        description="The earliest start of a candle, Unix seconds.",
        examples=[1_763_200_800],
    ),
]
Until = Annotated[
    int,
    Meta(
        ge=0,
        le=TIME_MAX,
        description="The latest start of a candle, Unix seconds.",
        examples=[1_763_460_000],
    ),
]


Included = Annotated[
    Literal["all", "closed"],
    Meta(description="closed: without the candle that is still open.", examples=["closed"]),
]
In = Annotated[
    Literal["usd", "sol", "marketcap"],
    Meta(
        description="Unit of prices: SOL as exchanged, or USD times the newest supply. Volumes stay"
        " in USD. A span whose price in SOL is not known has no candle, or a filled one."
    ),
]
NAMED: Final = {
    "from_": "from",
    "in_": "in",
    "next_cursor": "nextCursor",
    "volume_profile": "volumeProfile",
}


class CandlesQuery(Wire, rename=NAMED):
    """Query of GET /v1/token/{tokenAddress}/candles."""

    tf: Annotated[
        Literal["s15", "m1", "m5", "m15", "m30", "h1", "h4", "d1"],
        Meta(
            description="The length of the candles. They begin at full minutes, hours or days of"
            " UTC. s15: only for the time for which swaps are kept.",
            examples=["m5"],
        ),
    ]
    from_: Since = 0
    to: Until = TIME_MAX
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=CANDLES_MAX,
            description="The number of candles; each page costs the same.",
            examples=[100],
        ),
    ] = 100
    cursor: CursorText = ""
    candles: Included = "all"
    fill: Annotated[
        Literal["none", "previous"],
        Meta(
            description="previous: a span without a price has a candle at the close before, with"
            " the volume of the span."
        ),
    ] = "none"
    in_: In = "usd"
    format: Annotated[
        Literal["json", "csv", "parquet", "arrow"],
        Meta(
            description="Other than json: a table of all candles from `from` to `to`, the newest"
            " 44,640 at most, in one answer: a credit for each 1,000, credits only."
        ),
    ] = "json"
    pool: Annotated[
        str,
        Meta(
            max_length=POOL_LENGTH_MAX,
            description="Candles of this pool alone, as /pools names it, m5 or wider: of two days,"
            " of final slots, in USD or as market cap. Empty: of the token.",
        ),
    ] = ""
    profile: Annotated[
        int,
        Meta(
            ge=0,
            le=BINS_MAX,
            description="Bins of `volumeProfile`, the volume by price of the page; 0: none.",
            examples=[24],
        ),
    ] = 0


class SolPrices(Wire, gc=False):
    """The prices of a candle in SOL."""

    o: Annotated[float, Meta(description="Open, SOL per whole token.", examples=[1.0])]
    h: Annotated[float, Meta(description="High, SOL per whole token.", examples=[1.01])]
    l: Annotated[float, Meta(description="Low, SOL.", examples=[0.99])]  # noqa: E741 - as charts do
    c: Annotated[float, Meta(description="Close, SOL per whole token.", examples=[1.0])]


class Candle(Wire, gc=False):
    """The prices, the volume and the number of swaps of one span of time."""

    t: Annotated[
        int, Meta(description="When the candle begins, Unix seconds.", examples=[1_763_459_700])
    ]
    o: Annotated[float, Meta(description="Open, USD per whole token.", examples=[171.0])]
    h: Annotated[float, Meta(description="High, USD per whole token.", examples=[171.5])]
    l: Annotated[float, Meta(description="Low, USD.", examples=[170.75])]  # noqa: E741 - as charts do
    c: Annotated[float, Meta(description="Close, USD per whole token.", examples=[171.25])]
    sol: Annotated[
        SolPrices | None,
        Meta(
            description="The prices in SOL; null in imported candles, and in candles from before"
            " mintscope stored them."
        ),
    ]
    volume: Annotated[float, Meta(description="Traded, USD.", examples=[1250.5])]
    buy_volume: Annotated[
        float | None,
        Meta(description="Bought volume, USD; null in imported candles.", examples=[700.25]),
    ]
    sell_volume: Annotated[
        float | None,
        Meta(description="Sold volume, USD; null in imported candles.", examples=[550.25]),
    ]
    swaps: Annotated[
        int | None,
        Meta(
            description="Swaps that set a price; 0 where it is filled from the close before, null"
            " in imported candles.",
            examples=[12],
        ),
    ]
    imported: Annotated[
        bool,
        Meta(
            description=(
                "The candle, or a part of it, is from a provider and not computed from swaps."
            ),
            examples=[False],
        ),
    ]
    is_open: Annotated[
        bool, Meta(description="The candle has not ended, and may change.", examples=[True])
    ]


class SupplyUsed(Wire):
    """The supply that market capitalizations are computed from."""

    tokens: Annotated[
        str, Meta(description="In whole tokens, exact, burned ones left out.", examples=["999.5"])
    ]
    read_at: Annotated[
        int,
        Meta(description="When it was read, Unix seconds: older candles take the same supply."),
    ]


class ProfileBin(Wire):
    """Volume between two prices."""

    low: Annotated[
        float, Meta(description="Its lowest price, in the unit of `in`.", examples=[170.0])
    ]
    high: Annotated[
        float, Meta(description="Its highest price, in the unit of `in`.", examples=[170.5])
    ]
    volume_usd: Annotated[float, Meta(description="Volume in it, USD.", examples=[1250.5])]


class VolumeProfile(Wire):
    """Volume by price: a candle's volume is spread evenly from its low to its high."""

    bins: Annotated[list[ProfileBin], Meta(description="Of equal width, the lowest first.")]
    point_of_control: Annotated[
        float,
        Meta(description="Middle of the bin with the most volume, a price.", examples=[170.25]),
    ]
    value_area_low: Annotated[
        float, Meta(description="Lowest price of 70 % of the volume.", examples=[168.0])
    ]
    value_area_high: Annotated[
        float, Meta(description="Highest price of 70 % of the volume.", examples=[172.5])
    ]


class CandlePage(Wire, rename=NAMED):
    """A page of candles."""

    token: Token
    tf: Annotated[str, Meta(description="The length of the candles.", examples=["m5"])]
    candles: Annotated[
        list[Candle], Meta(description="Oldest first; the next page has those before them.")
    ]
    next_cursor: NextCursor
    pool: Annotated[str | UnsetType, on_request("The pool, if of one pool alone.")] = UNSET
    in_: Annotated[str | UnsetType, on_request("The unit of o, h, l and c, if not USD.")] = UNSET
    supply: Annotated[SupplyUsed | UnsetType, on_request("The supply of market caps.")] = UNSET
    volume_profile: Annotated[
        VolumeProfile | UnsetType | None,
        on_request("The volume of the page by price; null: nothing was traded."),
    ] = UNSET


class Before(msgspec.Struct, frozen=True, array_like=True, tag="before"):
    """A cursor; *until* is the latest start of a candle of the next page."""

    tf: str
    until: int


class SwapsQuery(Wire):
    """Query of GET /v1/token/{tokenAddress}/swaps."""

    limit: Annotated[
        int, Meta(ge=1, le=SWAPS_MAX, description="The number of swaps; each page costs the same.")
    ] = 100
    cursor: Annotated[
        str, Meta(description="nextCursor of the page before.", examples=[SWAP_CURSOR])
    ] = ""


class Amount(Wire, gc=False):
    """An amount of a token, in its smallest unit and in whole tokens."""

    raw: Annotated[
        str, Meta(description="In the smallest unit, an integer as text.", examples=["1500000000"])
    ]
    decimal: Annotated[
        str | None,
        Meta(
            description="In whole tokens, exact; null if the decimals are not known.",
            examples=["1.5"],
        ),
    ]


class PriceOfSwap(Wire, gc=False):
    """The price of one whole token in a swap."""

    usd: Annotated[float, Meta(description="USD per whole token.")]
    sol: Annotated[float, Meta(description="SOL per whole token.")]


class SwapLine(Wire, gc=False):
    """One swap: a trade with one pool."""

    slot: Annotated[int, Meta(description="The slot of its block.")]
    t: Annotated[
        int, Meta(description="Its time, Unix seconds; never below that of the block before.")
    ]
    signature: Annotated[
        str, Meta(description="Signature of its transaction, base58.", examples=[EXAMPLE_SIGNATURE])
    ]
    program: Annotated[
        str,
        Meta(
            description="The short name of the exchange, or its address if it is not listed.",
            examples=["pumpswap"],
        ),
    ]
    pool: Annotated[
        str | None,
        Meta(
            description="The address of the pool, or of its two vaults with + between them.",
            examples=[EXAMPLE_WALLET],
        ),
    ]
    side: Annotated[
        Literal["buy", "sell"], Meta(description="Whether the token was bought or sold.")
    ]
    token_amount: Annotated[Amount, Meta(description="Of the token.")]
    quote: Annotated[
        str,
        Meta(
            description="The mint that it was traded for: a dollar, SOL or another token.",
            examples=[USDC],
        ),
    ]
    quote_amount: Annotated[Amount, Meta(description="Of the quote.")]
    price: Annotated[
        PriceOfSwap | None,
        Meta(
            description="Null if too little moved, or decimals are not known. For SOL, the"
            " price in this swap alone; candles of SOL use the SOL/USD rate."
        ),
    ]
    sets_price: Annotated[
        bool,
        Meta(
            description=(
                "Whether the price of the swap is in a candle; if not, another pool may decide the"
                " price."
            )
        ),
    ]
    is_final: Annotated[
        bool,
        Meta(description=("Whether the block of the swap is final; otherwise it is confirmed.")),
    ]
    recognised_by: Annotated[
        Literal["table", "transfers"],
        Meta(
            description="table: an instruction that is known of a listed program. transfers: what"
            " moved under a program that is not listed."
        ),
    ]
    reason: Annotated[
        Literal["otherPool", "roundTrip", "noPrice"] | None,
        Meta(
            description="Why it sets no price; null if it does. otherPool: its pool does not count,"
            " or it is too far off the others. roundTrip: in one transaction its signer's gain came"
            " back to the mint that it began with, or its pool went both ways. noPrice: too little"
            " moved, or decimals are not known."
        ),
    ]
    excluded_volume: Annotated[
        float | None,
        Meta(
            description=(
                "The traded USD that are not counted in any volume; null: the swap is counted."
            )
        ),
    ]
    excluded_reason: Annotated[
        Literal["otherPool", "roundTrip", "noPrice", "quote"] | None,
        Meta(
            description="Why it is in no volume. otherPool, noPrice: its price was rejected, see"
            " reason. roundTrip: one signer bought and sold the token in one transaction. quote: it"
            " was paid for with a token whose trades count no volume."
        ),
    ]


class SwapPage(Wire):
    """A page of swaps."""

    token: Token
    swaps: Annotated[
        list[SwapLine], Meta(description="Newest first; the next page has those before them.")
    ]
    next_cursor: Annotated[
        str | None,
        Meta(
            description="The cursor of the next page; null: there is none.", examples=[SWAP_CURSOR]
        ),
    ]


class BeforeSwap(msgspec.Struct, frozen=True, array_like=True, tag="swap"):
    """The swap after which the next page begins."""

    slot: int
    transaction_index: int
    outer: int
    inner: int
    leg: int


NAMES_MAX: Final = 20
CANDLE: Final = "candle"  # a name for the candle itself, so that a chart needs only one page
# A pattern cannot express which parameters an indicator takes, and their ranges.
PARAMETERS: Final = r"\([0-9]{1,12}(\.[0-9]{1,6})?(,[0-9]{1,12}(\.[0-9]{1,6})?){0,2}\)"
Name = Annotated[
    str,
    Meta(
        description="A field of a point, or an indicator with parameters; usual ones: "
        + ", ".join(each.usual for each in INDICATORS.values())
        + ".",
        examples=["sma(50)"],
        # Not the `pattern` of Meta: with it, errors would name the pattern, not the problem.
        extra_json_schema={
            "pattern": f"^({CANDLE}|{'|'.join(NAMES)}|({'|'.join(INDICATORS)})({PARAMETERS})?)$"
        },
    ),
]


class IndicatorsQuery(Wire, rename=NAMED):
    """Query of GET /v1/token/{tokenAddress}/indicators."""

    tf: Annotated[
        Literal["s15", "m1", "m5", "m15", "m30", "h1", "h4", "d1"],
        Meta(
            description="The length of the candles. s15: only while swaps are kept.",
            examples=["m5"],
        ),
    ]
    names: Annotated[
        list[Name],
        Meta(min_length=1, max_length=NAMES_MAX, description="Indicators, separated by commas."),
    ] = msgspec.field(default_factory=lambda: list(AVERAGES))
    from_: Since = 0
    to: Until = TIME_MAX
    limit: Annotated[
        int,
        Meta(ge=1, le=CANDLES_MAX, description=("The number of points; each page costs the same.")),
    ] = 100
    cursor: CursorText = ""
    candles: Included = "all"
    fill: Annotated[
        Literal["none", "previous"],
        Meta(
            description="previous: a span without a trade counts as a candle of the close before;"
            " none: it is skipped, as in the report."
        ),
    ] = "none"
    in_: In = "usd"


class BollingerPoint(Wire, gc=False):
    """Bollinger bands: 20 candles, 2 standard deviations."""

    upper: Annotated[float, Meta(description="USD.")]
    middle: Annotated[float, Meta(description="Mean of 20 closes, USD.")]
    lower: Annotated[float, Meta(description="USD.")]


class StochasticPoint(Wire, gc=False):
    """Stochastic RSI (14, 14, 3, 3), 0 to 100."""

    k: Annotated[float, Meta(description="0 to 100.")]
    d: Annotated[float | None, Meta(description="Mean of three k, 0 to 100.")]


class CandlePoint(Wire, gc=False):
    """The candle to which a point of indicators belongs."""

    o: Annotated[float, Meta(description="Open, USD.")]
    h: Annotated[float, Meta(description="High, USD.")]
    l: Annotated[float, Meta(description="Low, USD.")]  # noqa: E741 - as charts do
    c: Annotated[float, Meta(description="Close, USD.")]
    volume: Annotated[float, Meta(description="Traded, USD.")]


Asked = UnsetType


class _Place(Wire, gc=False):
    t: Annotated[int, Meta(description="When the candle begins, Unix seconds.")]
    is_open: Annotated[
        bool, Meta(description="The candle has not ended: its values may change.", examples=[True])
    ]


_OfReport: Any = msgspec.defstruct("_OfReport", absent_indicators(), bases=(_Place,), gc=False)


class IndicatorPoint(_OfReport):  # type: ignore[misc]  # some fields are those of a report
    """The requested values after one candle; null while there are too few candles."""

    atr: Annotated[
        float | Asked | None, Meta(description="Average true range of 14, Wilder's, USD.")
    ] = UNSET
    bollinger: Annotated[
        BollingerPoint | Asked | None, Meta(description="20 candles, 2 standard deviations.")
    ] = UNSET
    vwap: Annotated[
        float | Asked | None,
        Meta(description="Volume-weighted price since the day began (UTC), USD."),
    ] = UNSET
    stoch_rsi: Annotated[
        StochasticPoint | Asked | None, Meta(description="Stochastic RSI (14, 14, 3, 3).")
    ] = UNSET
    values: Annotated[
        dict[str, float | dict[str, float | None] | None] | Asked,
        Meta(
            description="Indicators with parameters, by the names they were asked for: a number,"
            " or an object of the numbers that the indicator has. Null while they warm up.",
            examples=[{"sma(50)": 0.0231, "adx": {"adx": 31.2, "plusDi": 24.1, "minusDi": 11.9}}],
        ),
    ] = UNSET
    candle: Annotated[
        CandlePoint | Asked, Meta(description="The candle of the point, if it was asked for.")
    ] = UNSET


class IndicatorPage(Wire, rename={**NAMED, "exact_from": "exactFrom"}):
    """A page of indicators."""

    token: Token
    tf: Annotated[str, Meta(description="The length of the candles.", examples=["m5"])]
    points: Annotated[
        list[IndicatorPoint], Meta(description="Oldest first; the next page has those before.")
    ]
    exact_from: Annotated[
        int | None,
        Meta(
            description="No points before this time: older candles were deleted, so values would be"
            " inexact. Null: older points exist, or the token began there."
        ),
    ]
    next_cursor: NextCursor
    in_: Annotated[str | UnsetType, on_request("The unit of prices, if not USD.")] = UNSET
    supply: Annotated[SupplyUsed | UnsetType, on_request("The supply of market caps.")] = UNSET
