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
        "get_token",
        "CallPrice and indicators of a token",
        "GET",
        "/v1/token/{tokenAddress}",
        ToolCost.CREDIT,
        "The state of one Solana token now: price of one whole token in USD and in SOL; RSI (0 to"
        " 100), EMA and MACD in USD, and Fibonacci levels in USD, on candles of 1, 5, 15 and 60"
        " minutes, the candle that is still open included; buy pressure, which is buy volume over"
        " all volume (0 to 1), of the last 1, 5 and 15 minutes, 1 and 4 hours, and day. Numbers are"
        f" not rounded; null means that there are too few candles yet. {FRESH} {ONE_CREDIT}"
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
        "get_balance",
        "Credits left",
        "GET",
        "/v1/credits/balance",
        ToolCost.NOTHING,
        "How many credits are left on the credit token in the Authorization header; 1 credit pays"
        f" for 1 call of a paid tool. As of now. Free. {FREE_ERRORS}",
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
        " credit token in the Authorization header the credits are added to that one."
        f" {FREE_ERRORS}",
    ),
)
