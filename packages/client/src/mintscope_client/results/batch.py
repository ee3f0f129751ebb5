"""Reports of several tokens at once, and prices of tokens at times of the past."""

import msgspec

from mintscope_client.results.report import Report


class WhyNot(msgspec.Struct, frozen=True):
    """The reason for a missing report: a code of docs/api.md, and a message."""

    code: str
    message: str


class ReportOrNot(msgspec.Struct, frozen=True):
    """One mint of a batch: its report, or the reason why there is none."""

    token: str
    report: Report | None = None
    error: WhyNot | None = None


class BatchReports(msgspec.Struct, frozen=True):
    """A line for each mint, in the order of the request; *delivered* of them have a report."""

    delivered: int
    results: list[ReportOrNot]


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
