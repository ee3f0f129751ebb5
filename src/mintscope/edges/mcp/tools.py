"""The tools: what each is for, and which request to the API it makes.

The texts are the only description that a model reads: they state units, order, cost and freshness.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

FREE_ERRORS: Final = "An error costs nothing."
FRESH: Final = (
    "As of the last block that was applied: meta.dataAgeMs says how old it is, usually about a"
    " second; data older than 300 s is refused."
)
ONE_CREDIT: Final = (
    "Costs 1 credit (at most 0.0025 USD): from the credit token or API key in the Authorization"
    " header, or a payment of its own (x402) in _meta['x402/payment']."
)


class ToolCost(Enum):
    """What a successful call of a tool takes."""

    NOTHING = "nothing"
    CREDIT = "one credit, or a payment of the price of one"
    BUNDLE = "a payment of the price of a bundle"


class Tool(NamedTuple):
    """A tool.

    path       of the operation, its variable segment in braces
    arguments  the names of tool arguments that have another name in the operation
    """

    name: str
    title: str
    method: str
    path: str
    cost: ToolCost
    description: str
    arguments: Mapping[str, str] = {}


MINT: Final = {"mint": "tokenAddress"}
TOOLS: Final = (
    Tool(
        "search_tokens",
        "Find tokens",
        "GET",
        "/v1/tokens",
        ToolCost.NOTHING,
        "The Solana tokens that this service follows: mint, name, symbol, price of one whole token"
        " in USD and SOL with its confidence (high, medium, low), change of the price as a fraction"
        " (0.05 is five percent more; that of a"
        " day, d1, is since changeSince if that is not null: the token is younger), volume of a day"
        " in USD, market cap in USD, timeframes that are ready. Find the mint of a token"
        " here, for the other tools. query is a part of the name or symbol, or the beginning of the"
        " mint; sorted by volume, the most first, unless sort and order say otherwise. Names are"
        " what a token calls itself: compare the mint. null means not known. As of data.asOf, Unix"
        " seconds; give data.nextCursor as cursor for the next page. Free."
        f" {FREE_ERRORS}",
    ),
    Tool(
        "get_token",
        "Price and indicators of a token",
        "GET",
        "/v1/token/{tokenAddress}",
        ToolCost.CREDIT,
        "The state of one Solana token now: price of one whole token in USD and in SOL; RSI (0 to"
        " 100), EMA and MACD in USD, and Fibonacci levels in USD, on candles of 1, 5, 15 and 60"
        " minutes, the candle that is still open included unless candles is closed; buy pressure,"
        " which is buy volume over all volume (0 to 1), of the last 1, 5 and 15 minutes, 1 and 4"
        " hours, and day. Numbers are not rounded; null means that there are too few candles yet. A"
        " token with trades in fewer than 9 minutes is INSUFFICIENT_DATA unless partial is true."
        " price.confidence says how good the price is: low costs little to move, or is of a token's"
        " first 10 minutes; price.liquidityUsd stands behind it, price.ageMs ago it was set."
        " coverage is the part of all trades of the last hour or two that was read (0 to 1)."
        f" {FRESH} {ONE_CREDIT}"
        f" {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "get_candles",
        "Candles of a token",
        "GET",
        "/v1/token/{tokenAddress}/candles",
        ToolCost.CREDIT,
        "The history of one Solana token as candles of m1, m5, m15, h1, h4 or d1, up to 1,000 a"
        " call: open, high, low and close of one whole token in USD (o, h, l, c) and in SOL (sol),"
        " volume in USD, bought and sold apart, number of swaps. t is when a candle begins, Unix"
        " seconds in UTC. The newest page comes first, and within a page the oldest candle; give"
        " data.nextCursor as cursor for the page before it. The candle that is still open is there"
        f" (isOpen). {FRESH} {ONE_CREDIT} A page without any candle is free. {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "get_indicators",
        "Indicators of a token, candle by candle",
        "GET",
        "/v1/token/{tokenAddress}/indicators",
        ToolCost.CREDIT,
        "The history of indicators of one Solana token, on candles of m1, m5, m15 or h1, up to"
        " 1,000 points a call: EMA, MACD, ATR, VWAP, Bollinger bands and Fibonacci levels in USD,"
        " RSI and stochastic RSI from 0 to 100; names says which. t is when the candle begins, Unix"
        " seconds in UTC; null means that an indicator is still warming up. The newest page comes"
        " first, and within a page the oldest point; give data.nextCursor as cursor for the page"
        f" before it. {FRESH} {ONE_CREDIT} A page without any point is free. {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "get_swaps",
        "Swaps of a token",
        "GET",
        "/v1/token/{tokenAddress}/swaps",
        ToolCost.CREDIT,
        "The newest trades of one Solana token, newest first, up to 500 a call: slot, time (t, Unix"
        " seconds in UTC), signature of the transaction, exchange, pool, side, both amounts (raw in"
        " the smallest unit, decimal in whole tokens), price of one whole token in USD and in SOL."
        " Give data.nextCursor as cursor for the older ones."
        f" {FRESH} {ONE_CREDIT} A page without any swap is free. {FREE_ERRORS}",
        MINT,
    ),
    Tool(
        "get_balance",
        "Credits left",
        "GET",
        "/v1/credits/balance",
        ToolCost.NOTHING,
        "How many credits are left on the credit token, or in the account of the API key, in the"
        " Authorization header; 1 credit pays for 1 call of a paid tool. As of now. Free."
        f" {FREE_ERRORS}",
    ),
    Tool(
        "buy_credits",
        "Buy credits",
        "POST",
        "/v1/credits/purchase",
        ToolCost.BUNDLE,
        "Buy a bundle of prepaid credits by an x402 payment on Solana: 10 credits for 0.025 USD, 50"
        " for 0.1125, 100 for 0.2, 500 for 0.75, paid in the token that the terms name. First call"
        " it without a payment: the answer is an error that holds the terms (structuredContent,"
        " x402Version 2), and costs nothing. Then call it again with the signed payment in"
        " _meta['x402/payment']. Choose an idempotency_key, hard to guess, and REUSE THE SAME KEY"
        " and the same payment on every retry: then nothing is paid twice, and a lost answer is"
        " given again. The result holds the credit token, a secret that spends the credits; with a"
        " credit token or an API key (trade:write) in the Authorization header they are added to"
        " that token, or to the account of the key."
        f" {FREE_ERRORS}",
    ),
)
