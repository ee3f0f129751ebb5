"""Every call there is."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from mintscope.client.calls.call import ApiCall
from mintscope.client.results.credits import (
    BundleList,
    CreditBalance,
    CreditHistory,
    CreditPurchase,
)
from mintscope.client.results.report import Report

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
