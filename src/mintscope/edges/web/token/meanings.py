"""What each number of the page means: in a sentence, exactly, and where that comes from."""

from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """An indicator, for people.

    formula   exactly as it is computed
    seed      how it begins, and when it is there
    source    where the definition comes from
    """

    name: str
    text: str
    formula: str
    seed: str
    source: str


MEANINGS: Final = (
    Meaning(
        "Price",
        "What one whole token cost in its newest swap that sets a price; in dollars by the price"
        " of SOL in the same minute.",
        "quote amount / token amount",
        "The first swap that is large enough.",
        "The swap itself, in the slot that is named.",
    ),
    Meaning(
        "Candle",
        "The first, highest, lowest and last price of a time span. A span without a swap has no"
        " candle; the one that is open counts.",
        "open = first, high = max, low = min, close = last",
        "The first swap of the span.",
        "Swaps in the order of the chain, never in that of their arrival.",
    ),
    Meaning(
        "EMA 9, 21, 50, 200",
        "A mean of closes in which newer ones weigh more. Above the price it may hold it down,"
        " below it may hold it up.",
        "e = a * close + (1 - a) * e, a = 2 / (n + 1)",
        "The mean of the first n closes; nothing below n candles.",
        "As TradingView, TA-Lib and Skender have it.",
    ),
    Meaning(
        "RSI 14",
        "How much of the movement was upward, 0 to 100. Above 70 is called overbought, below 30"
        " oversold.",
        "100 * G / (G + L); G, L = (13 * before + gain or loss) / 14",
        "The means of the first 14 gains and losses; nothing below 15 candles; 50 where nothing"
        " moved.",
        "J. Welles Wilder, New Concepts in Technical Trading Systems, 1978.",
    ),
    Meaning(
        "MACD 12, 26, 9",
        "The distance of a fast mean from a slow one. Where the line crosses its signal, the"
        " histogram changes its side.",
        "line = EMA 12 - EMA 26; signal = EMA 9 of the line; histogram = line - signal",
        "Each mean by its own first closes; nothing below 34 candles.",
        "Gerald Appel; the seeds are those of TradingView.",
    ),
    Meaning(
        "Fibonacci",
        "Parts of the way between the highest and the lowest price of 100 candles, at which some"
        " expect a turn.",
        "level p = H - (H - L) * p; extension q = L + (H - L) * q",
        "Of fewer candles where there are no 100.",
        "Retracements 23.6, 38.2, 50, 61.8, 76.4 %, measured down from the high.",
    ),
    Meaning(
        "Buyers' share",
        "Which part of the volume bought the token: 0.5 is even. Where nothing was traded there is"
        " no share, and the API says 0.",
        "bought / (bought + sold), in dollars",
        "Of a window that ends now, in 60 parts.",
        "Every swap with a known volume, whatever its pool.",
    ),
)
