"""Prices of tokens at times of the past."""

import msgspec

from mintscope_client.results.batch import WhyNot


class PastPrice(msgspec.Struct, frozen=True, rename="camel"):
    """A price: the close of the newest *tf* candle closed by then, which ended at *closed_at*."""

    usd: float
    sol: float | None
    closed_at: int
    tf: str


class PriceOrNot(msgspec.Struct, frozen=True):
    """The price of one token at one time (Unix seconds), or the reason why there is none."""

    token: str
    t: int
    price: PastPrice | None = None
    error: WhyNot | None = None


class PastPrices(msgspec.Struct, frozen=True):
    """A line for each token and time, in the order of the request; *found* have a price."""

    found: int
    prices: list[PriceOrNot]
