"""Every call there is."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import quote

import msgspec

from mintscope.client.calls.call import ApiCall
from mintscope.client.calls.paged import PagedCall
from mintscope.client.results.batch import BatchReports
from mintscope.client.results.credits import (
    BundleList,
    CreditBalance,
    CreditHistory,
    CreditPurchase,
)
from mintscope.client.results.report import Report
from mintscope.client.results.series import CandleLine, CandlesPage

Timeframe: TypeAlias = Literal["m1", "m5", "m15", "h1", "h4", "d1"]

BUNDLES: Final = ApiCall(name="bundles", method="GET", path="/v1/credits/bundles", kind=BundleList)
BALANCE: Final = ApiCall(
    name="balance", method="GET", path="/v1/credits/balance", kind=CreditBalance
)
HISTORY: Final = ApiCall(
    name="history", method="GET", path="/v1/credits/history", kind=CreditHistory
)


def token(mint: str) -> ApiCall[Report]:
    """Return the call for the report of *mint*: one credit."""
    return ApiCall(
        name="token", method="GET", path=f"/v1/token/{_segment(mint)}", kind=Report, credits_max=1
    )


def batch(mints: Sequence[str]) -> ApiCall[BatchReports]:
    """Return the call for the reports of *mints*, up to 50: a credit for each that is delivered."""
    return ApiCall(
        name="batch",
        method="POST",
        path="/v1/tokens/batch",
        kind=BatchReports,
        body=msgspec.json.encode({"mints": list(mints)}),
        credits_max=len(mints),
        credits_of=lambda batch: batch.delivered,
    )


class CandleRange(TypedDict, total=False):
    """Which candles.

    from_, to   when they begin, Unix seconds
    limit       how many a page holds, up to 1,000; it costs the same
    fill        "previous": spans without a trade have a candle of the close before
    """

    from_: int
    to: int
    limit: int
    fill: Literal["none", "previous"]


def candles(
    mint: str, tf: Timeframe, **within: Unpack[CandleRange]
) -> PagedCall[CandlesPage, CandleLine]:
    """Return the pages of candles of *mint*, the newest first: a credit each, empty ones none.

    tf    how wide candles are
    """
    fields = {"tf": tf} | {name.rstrip("_"): value for name, value in within.items()}

    def call_at(cursor: str | None) -> ApiCall[CandlesPage]:
        return ApiCall(
            name="candles",
            method="GET",
            path=f"/v1/token/{_segment(mint)}/candles",
            kind=CandlesPage,
            query=_query({**fields, "cursor": cursor}),
            credits_max=1,
            credits_of=lambda page: 1 if page.candles else 0,
        )

    return PagedCall(call_at, lambda page: page.candles)


def purchase(credit_count: int) -> ApiCall[CreditPurchase]:
    """Return the call that buys the bundle of *credit_count* credits."""
    return ApiCall(
        name="purchase",
        method="POST",
        path="/v1/credits/purchase",
        kind=CreditPurchase,
        query=_query({"bundle": credit_count}),
        is_purchase=True,
    )


def _segment(text: str) -> str:
    return quote(text, safe="")


def _query(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the fields that have a value, as text."""
    return tuple((name, str(value)) for name, value in fields.items() if value is not None)
