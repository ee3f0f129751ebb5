"""MCP tools and their descriptions.

Models know a tool only by its description, which therefore states units, order and cost.

Lists are returned as tables, because many hosts limit a result to 25,000 model tokens: 595 candles
as objects are 154 KB.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

FREE_ERRORS: Final = "Errors are free."
CHART: Final = "ui://mintscope/chart"
ONE_CREDIT: Final = "1 credit (x402: 0.0025 USD)."


class ToolCost(Enum):
    """The cost of a successful call of a tool."""

    NOTHING = "nothing"
    CREDIT = "one credit, or a payment of the price of one"
    BUNDLE = "a payment of the price of a bundle"


class Page(NamedTuple):
    """The list in the data that a tool returns.

    name      field of the data that contains the list
    fields    row fields that callers can choose; empty if another argument selects the fields
    default   row fields if the caller chooses none; empty for all
    """

    name: str
    fields: tuple[str, ...] = ()
    default: tuple[str, ...] = ()


class Tool(NamedTuple):
    """An MCP tool.

    path       path of the operation, with the variable segment in braces
    arguments  the names of renamed arguments in the API, by their names in the tool
    page       the list that is returned as a table; None: the data is returned unchanged
    body       the request body; None if it has none
    chosen     values of constant query fields, by the names of the fields in the API
    app        URI of the resource in which hosts show the rows to a person, while the model gets
               only the newest row; "" if the tool has no app
    """

    name: str
    title: str
    method: str
    path: str
    cost: ToolCost
    description: str
    arguments: Mapping[str, str] = {}
    page: Page | None = None
    body: "Body | None" = None
    chosen: Mapping[str, str] = {}
    app: str = ""


class Body(NamedTuple):
    """The body of a request, as described by the OpenAPI document.

    schema   name of the component schema
    fields   shortened descriptions of the arguments, by name
    fixed    constant fields
    """

    schema: str
    fields: Mapping[str, str]
    fixed: Mapping[str, str]


MINT: Final = {"mint": "tokenAddress"}
LISTED: Final = Page(
    "tokens",
    (
        "mint", "name", "symbol", "decimals", "price", "change", "volumeUsdD1", "swapsD1",
        "marketCapUsd", "readyTimeframes", "trackedSince", "ageS", "uiMultiplier", "changeSince",
        "nameCleaned", "lookAlikeOf",
    ),
    (
        "mint", "name", "symbol", "price", "change", "volumeUsdD1", "marketCapUsd", "changeSince",
        "lookAlikeOf",
    ),
)  # fmt: skip
CANDLES: Final = Page(
    "candles",
    (
        "t", "o", "h", "l", "c", "sol", "volume", "buyVolume", "sellVolume", "swaps", "imported",
        "isOpen",
    ),
    ("t", "o", "h", "l", "c", "volume"),
)  # fmt: skip
SWAPS: Final = Page(
    "swaps",
    (
        "slot", "t", "signature", "program", "pool", "side", "tokenAmount", "quote", "quoteAmount",
        "price", "setsPrice", "isFinal", "recognisedBy", "reason", "excludedVolume",
        "excludedReason",
    ),
    ("t", "side", "tokenAmount", "price", "program", "signature", "setsPrice"),
)  # fmt: skip
TOOLS: Final = (
    Tool(
        "search_tokens",
        "Find tokens",
        "GET",
        "/v1/tokens",
        ToolCost.NOTHING,
        "Find tracked Solana tokens and their mints, for the other tools. Prices are USD and SOL of"
        " one whole token; change is a fraction (0.05: five percent up). Tokens choose their names:"
        " compare mints; lookAlikeOf names a larger token of the same name. Free.",
        page=LISTED,
    ),
    Tool(
        "screen_tokens",
        "Find tokens by their numbers",
        "GET",
        "/v1/screen",
        ToolCost.CREDIT,
        "Tracked Solana tokens for which a condition is true. Examples of where:"
        " 'liquidity > 100000 and crosses_below(rsi_h1, 30, 3)'; 'price > ema200_h1 and ema9_h1 >"
        " ema21_h1 and change_h1 > 0.05'; 'age_s < 3600 and volume_h1 > 50000 and not confidence ="
        f" low'. data.matches counts all pages. {ONE_CREDIT} {FREE_ERRORS}",
        page=Page("tokens"),
    ),
    Tool(
        "get_token",
        "Price and indicators of a token",
        "GET",
        "/v1/token/{tokenAddress}",
        ToolCost.CREDIT,
        "One Solana token now: price (USD and SOL of one whole token), RSI (0 to 100), EMA, MACD"
        " and Fibonacci levels in USD on m1, m5, m15 and h1 candles, buy share of volume (0 to"
        " 1) from m1 to d1. null: too few candles yet. price.confidence low: costs little to move."
        f" {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "try_token",
        "Free report of a token",
        "GET",
        "/v1/trial/{tokenAddress}",
        ToolCost.NOTHING,
        "The get_token report, a few times a day for each client address; then RATE_LIMITED. Free.",
        MINT,
    ),
    Tool(
        "get_candles",
        "Candles of a token",
        "GET",
        "/v1/token/{tokenAddress}/candles",
        ToolCost.CREDIT,
        "Price history of one Solana token: open, high, low, close (USD of one whole token), volume"
        " (USD). t is the start of a candle, Unix seconds, oldest first; the last may be open still"
        f" (isOpen). {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
        CANDLES,
    ),
    Tool(
        "get_indicators",
        "Indicators of a token, candle by candle",
        "GET",
        "/v1/token/{tokenAddress}/indicators",
        ToolCost.CREDIT,
        "History of indicators of one Solana token, in USD; RSI, stochastic RSI: 0 to 100; those"
        " with parameters (sma(50), adx, supertrend(10,3)) under values. t is the start of a"
        f" candle, Unix seconds, oldest first; null: warming up."
        f" {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
        Page("points"),
    ),
    Tool(
        "show_chart",
        "Chart of a token",
        "GET",
        "/v1/token/{tokenAddress}/indicators",
        ToolCost.CREDIT,
        "Show a person a chart of one Solana token: 120 candles, EMA 9 and 21, RSI, and a button"
        " that buys 10 credits for at most max_usd. You get the newest values; hosts without MCP"
        f" Apps show nothing. {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
        Page("points"),
        chosen={"names": "candle,ema9,ema21,rsi", "limit": "120"},
        app=CHART,
    ),
    Tool(
        "get_swaps",
        "Swaps of a token",
        "GET",
        "/v1/token/{tokenAddress}/swaps",
        ToolCost.CREDIT,
        "Newest trades of one Solana token, newest first: t (Unix seconds), side, amounts (raw in"
        " the smallest unit, decimal in whole tokens), price in USD and SOL of one whole token,"
        f" program, signature. {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
        SWAPS,
    ),
    Tool(
        "get_pools",
        "Pools of a token",
        "GET",
        "/v1/token/{tokenAddress}/pools",
        ToolCost.CREDIT,
        "Pools that decide the price of one Solana token, heaviest first: USD on each side, volume"
        " (m5, h1, d1, kept: since swapsSince), traders, since, fee, a curve's progress and"
        " migration, moves: fraction that a trade of so many USD moves the price, without fees."
        f" null: not known. {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "get_traders",
        "Traders of a token",
        "GET",
        "/v1/token/{tokenAddress}/traders",
        ToolCost.CREDIT,
        "Traders of the newest kept swaps of one Solana token: buyers, sellers, share of the"
        " largest (m5, kept: since swapsSince), and those with the most bought and sold, USD, and"
        " realisedUsd. trader: first 8 characters of an address."
        f" {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "get_holders",
        "Holders of a token",
        "GET",
        "/v1/token/{tokenAddress}/holders",
        ToolCost.CREDIT,
        "20 largest accounts of one Solana token, with their share of the supply; kind: burned,"
        " locked, pool, other. readAt: when the node was asked, Unix seconds."
        f" {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "backtest",
        "Try a rule on the past",
        "GET",
        "/v1/token/{tokenAddress}/backtest",
        ToolCost.CREDIT,
        "When a condition, as of screen_tokens, became true in a token's past, the returns"
        " m5 to d1 later and, to compare, after all candles (all...). Fractions, fees taken off."
        f" {ONE_CREDIT} {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "create_alert",
        "Make an alert of a rule",
        "POST",
        "/v1/signals",
        ToolCost.NOTHING,
        "Watch a token: a webhook or e-mail when one comparison or crossing becomes true."
        " Needs an API key with scope signals:write. Free.",
        body=Body(
            "ConditionSignal",
            {
                "mint": "Its mint.",
                "where": "The comparison or crossing, as in backtest.",
                "name": "A name of yours.",
                "fires": "How often.",
                "webhookUrl": "https, public.",
                "email": "To the account.",
            },
            {"kind": "condition"},
        ),
    ),
    Tool(
        "get_balance",
        "Credits left",
        "GET",
        "/v1/credits/balance",
        ToolCost.NOTHING,
        "Credits left on the credit token, or in the account of the API key, in the Authorization"
        " header. Free.",
    ),
    Tool(
        "buy_credits",
        "Buy credits",
        "POST",
        "/v1/credits/purchase",
        ToolCost.BUNDLE,
        "Buy prepaid credits by an x402 payment on Solana: 10 for 0.025 USD, 50 for 0.1125, 100 for"
        " 0.2, 500 for 0.75. Without a payment it returns the terms (an error with x402Version"
        " 2 and accepts, free); call it again with the signed payment in _meta['x402/payment']. On"
        " retry REUSE THE SAME KEY (idempotency_key) and payment: it is answered again, not taken"
        " again. The"
        " result holds the credit token, a secret; with a credential in the Authorization header"
        f" (API key: scope trade:write) the credits are added to it. {FREE_ERRORS}",
    ),
)


SIGNIFICANT_DIGITS: Final = 9


def table_of(items: Sequence[Mapping[str, Any]], fields: Collection[str]) -> dict[str, Any]:
    """Return *items* as columns and rows; nested values get columns with dotted names.

    fields   names of the fields to keep; empty for all

    Numbers that are not integers are rounded to nine significant digits.
    """
    flat = [dict(_flattened(item, fields)) for item in items]
    columns = _columns(flat)
    rows = [[_rounded(row.get(column)) for column in columns] for row in flat]
    return {"columns": columns, "rows": rows}


def _flattened(item: Mapping[str, Any], fields: Collection[str]) -> Iterable[tuple[str, Any]]:
    for name, value in item.items():
        if fields and name not in fields:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", each) for inner, each in _flattened(value, ()))
        else:
            yield name, value


def _columns(flat: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of all columns; fields that are nested in any row have only dotted names."""
    names = list(dict.fromkeys(name for row in flat for name in row))
    nested = {name.rpartition(".")[0] for name in names}
    return [name for name in names if name not in nested]


def _rounded(value: Any) -> Any:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value
