"""The names under which this front sells, and what was sold under them."""

from collections.abc import Iterable, Iterator
from urllib.parse import urlencode

import msgspec

from mintscope.base.primitives import Mint
from mintscope.core.payments.books.orphans import SoldItem
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle
from mintscope.core.payments.protocol.requirement import Resource


def bundle_resource(bundle: Bundle) -> Resource:
    """Return where *bundle* is sold."""
    return Resource(f"/v1/credits/purchase?bundle={bundle.credits}")


def report_resource(mint: Mint) -> Resource:
    """Return where the report of *mint* is sold."""
    return Resource(f"/v1/token/{mint}")


def series_resource(mint: Mint, kind: str, query: msgspec.Struct) -> Resource:
    """Return where a page of a series of *mint* is sold: its path, and what was asked for."""
    asked = [
        (field.encode_name, _text(value))
        for field in msgspec.structs.fields(query)
        if (value := getattr(query, field.name)) != field.default
    ]
    return Resource(f"/v1/token/{mint}/{kind}?{urlencode(asked)}".rstrip("?"))


def bundle_offers() -> Iterator[SoldItem]:
    """Return every bundle."""
    return (SoldItem(bundle_resource(bundle), bundle.credits) for bundle in BUNDLES)


def report_offers(mints: Iterable[Mint]) -> Iterator[SoldItem]:
    """Return the reports of *mints*: each costs what a credit costs."""
    return (SoldItem(report_resource(mint), 1) for mint in mints)


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
