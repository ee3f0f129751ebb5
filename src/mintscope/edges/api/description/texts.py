"""Descriptions of the operations in `api.app` for programs: units, cost, remedies."""

from collections.abc import Mapping
from typing import Final

REPORT: Final = (
    "Returns the price of a Solana token in USD and SOL, and EMA 9, 21, 50, 200, RSI 14, MACD"
    " (12, 26, 9) and Fibonacci levels from candles of 1, 5, 15 and 60 minutes, with the share of"
    " buys in the volume from 1 minute to 24 hours. Costs one credit or one payment; errors cost"
    " nothing. It is a block behind the chain (X-Data-Age-Ms). price.confidence says how good the"
    " price is. An indicator is null below its candles. coverage is the part of trades that was"
    " read. partial=true returns young tokens."
)
TRIAL: Final = (
    "Returns what GET /v1/token/{{tokenAddress}} sells, of now and whole, without a credential or a"
    " payment: {per_day} reports a day and client address, views of token pages on the web site"
    " among them. Errors are not counted."
)
BATCH: Final = (
    "Returns the reports of up to 50 tokens, each as GET /v1/token/{tokenAddress} gives it, or why"
    " there is none. Costs one credit for each report that is delivered, and nothing for the"
    " others; without enough credits for all of them nothing is delivered or charged. Paid with"
    " credits alone."
)
BALANCE: Final = (
    "Returns the credits left on the credit token, or to the user of the API key, that is sent"
    " along. Costs nothing."
)
BUNDLES: Final = (
    "Returns the bundles of credits for sale, with their prices of this minute in USD and in atoms"
    " of the payment token. Costs nothing."
)
PURCHASE: Final = (
    "Sells a bundle of credits for a payment on Solana (x402), without an account: the answer is a"
    " new credit token, or the credits are added to the credit token or the account of the API key"
    " in Authorization. Ask once without payment for the terms, then send the same request with"
    " PAYMENT-SIGNATURE. Send an Idempotency-Key with both: if the answer is lost, the same payment"
    " with the same key returns it again for a day."
)
HISTORY: Final = (
    "Returns what moved the balance of the credit token, or of the user of the API key, newest"
    " first, and the sum of what requests have spent. Costs nothing."
)
ROTATE: Final = (
    "Moves credits to a new credit token: all of those on the token in Authorization, or those that"
    " the purchases of a wallet brought, on its signed challenge. The old token is void at once."
    " Costs nothing."
)
CHALLENGE: Final = (
    "Returns a text for a wallet to sign, good for 5 minutes; signed, it moves the credits that"
    " this wallet bought to a new credit token. Costs nothing."
)
CANDLES: Final = (
    "Returns candles of a Solana token from its swaps, oldest first, up to 1,000 a page: open,"
    " high, low and close in USD and SOL, buy and sell volume in USD, number of swaps. Costs one"
    " credit or one payment a page, and nothing for a page without candles; errors cost nothing."
    " Minutes without a swap have no candle unless fill=previous. Times are Unix seconds;"
    " nextCursor leads to the next page."
)
INDICATORS: Final = (
    "Returns the indicators of a Solana token candle by candle, oldest first, up to 1,000 points a"
    " page: those of the report, ATR, Bollinger bands, VWAP, stochastic RSI, and"
    " indicators with parameters such as sma(50) or adx(14), as names asks."
    " Costs one credit or one payment a page, and nothing for a page without points; errors cost"
    " nothing. A value is null while there are too few candles. Times are Unix seconds."
)
SWAPS: Final = (
    "Returns the swaps of a Solana token, newest first, up to 500 a page: slot, time, signature,"
    " program, pool, side, amounts and price. Costs one credit or one payment a page, and nothing"
    " for a page without swaps; errors cost nothing. nextCursor leads to older ones, as long as"
    " they are kept."
)
SCREEN: Final = (
    "Returns the tracked Solana tokens for which a condition is true, up to 100 a page: price,"
    " changes, volumes, liquidity, market cap, age and confidence, and EMA 9, 21, 50, 200, RSI 14"
    " and MACD (12, 26, 9) from candles of 1, 5, 15 and 60 minutes, each as the report has it, as"
    " of the newest final slot. Costs one credit or one payment a page, and nothing for a page"
    " without tokens; errors cost nothing, and say at which character the condition is wrong."
    " nextCursor leads to the next page."
)
POOLS: Final = (
    "Returns the pools that decide the price of a Solana token, up to 8, the heaviest first: venue,"
    " pair, price, share of what decides the price, US dollars on each side, volume, swaps and"
    " traders of 5 minutes and of all kept swaps, and by what part trades of 100, 1,000 and 10,000"
    " US dollars would move the price. Costs one credit or one payment; errors cost nothing. As of"
    " the newest final slot."
)
TRADERS: Final = (
    "Returns who trades a Solana token, of its newest 2,000 kept swaps: buyers, sellers and"
    " concentration of 5 minutes and of all of them, and the traders with the most bought and sold,"
    " with what they gained on tokens that they bought and sold. A trader is the beginning of an"
    " address. Costs one credit or one payment, and nothing if no swap is kept; errors cost"
    " nothing."
)
SERIES: Final[Mapping[str, str]] = {
    "traders": TRADERS,
    "pools": POOLS,
    "candles": CANDLES,
    "indicators": INDICATORS,
    "swaps": SWAPS,
}
