"""Requests and answers of a screen."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from mintscope.base.primitives import about
from mintscope.base.solana import WSOL
from mintscope.core.market.screening.fields import FIELDS, OF_TIMEFRAMES, OF_TOKENS
from mintscope.core.market.screening.grammar import TEXT_MAX
from mintscope.core.market.timeframe import TIMEFRAMES
from mintscope.edges.api.wire import Wire

PAGE_MAX: Final = 100
NAME_MAX: Final = 32
EXAMPLE: Final = "liquidity > 100000 and rsi_h1 < 30 and price > ema200_h1"
NAMES: Final = ", ".join(field.name for field in OF_TOKENS)
NAMES_OF_TIMEFRAMES: Final = ", ".join(name for name, _ in OF_TIMEFRAMES)
CONDITION: Final = (
    "The condition: fields and numbers with < <= > >= = !=, + - * /, and, or, not, ( );"
    " crosses_above(a, b), crosses_below(a, b): in the newest candle. Fields:"
    f" {NAMES}; and with _{', _'.join(TIMEFRAMES)} behind them: {NAMES_OF_TIMEFRAMES}. USD;"
    " changes are fractions (0.05: 5 % up); confidence is low, medium or high. Where a value is not"
    " known, a comparison with it is not true. Empty: all tokens."
)

FieldName = Annotated[str, Meta(max_length=NAME_MAX)]


class ScreenQuery(Wire):
    """Query of GET /v1/screen."""

    where: Annotated[str, Meta(max_length=TEXT_MAX, description=CONDITION, examples=[EXAMPLE])] = ""
    sort: Annotated[
        str,
        Meta(
            max_length=NAME_MAX,
            description="The field to sort by; tokens without a value come last.",
            examples=["volume_d1"],
        ),
    ] = "volume_d1"
    order: Annotated[Literal["asc", "desc"], Meta(description="The least first, or the most.")] = (
        "desc"
    )
    fields: Annotated[
        list[FieldName],
        Meta(
            max_length=len(FIELDS),
            description="Fields to show. None: price, those of the condition, and of sort.",
            examples=[["price", "rsi_h1"]],
        ),
    ] = msgspec.field(default_factory=list)
    limit: Annotated[
        int, Meta(ge=1, le=PAGE_MAX, description="Tokens on a page, at most; it costs the same.")
    ] = PAGE_MAX
    cursor: Annotated[
        str,
        Meta(
            max_length=512,
            description="`nextCursor` of the page before, to the same where, sort and order.",
        ),
    ] = ""


class ScreenRequest(ScreenQuery, forbid_unknown_fields=True):
    """Body of POST /v1/screen."""


class ScreenedToken(Wire):
    """One token for which the condition is true."""

    mint: Annotated[str, about("The mint, base58.", WSOL)]
    symbol: Annotated[str | None, about("Its symbol, as the chain says.", "SOL")]
    name: Annotated[str | None, about("Its name, as the chain says.", "Wrapped SOL")]
    values: Annotated[
        dict[str, float | str | None],
        about(
            "The fields that are shown, by their names; null: not known, or too few candles yet.",
            {"price": 171.25, "rsi_h1": 28.4, "confidence": "high"},
        ),
    ]


class ScreenPage(Wire):
    """A page of the tokens that were found, as of a final slot."""

    tokens: Annotated[list[ScreenedToken], about("The tokens, in the order that was asked for.")]
    matches: Annotated[int, about("How many tokens there are on all pages.", 42)]
    slot: Annotated[int, about("The final slot.", 380_000_000)]
    as_of: Annotated[int, about("Its time, Unix seconds.", 1_763_460_000)]
    next_cursor: Annotated[
        str | None, about("The cursor of the next page; null: there is none.", None)
    ]


class ScreenPosition(msgspec.Struct, tag="screen", frozen=True):
    """Where a page ended, and of which condition and order it was one: a digest of them."""

    digest: str
    value: float | None
    key: str
