"""The names under which this front sells, what was sold under them, and how it is paid for."""

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlencode

import msgspec

from mintscope.base.primitives import Mint
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.checkout.order import Order
from mintscope.core.payments.books.orphans import SoldItem
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle
from mintscope.core.payments.protocol.requirement import Requirement, Resource
from mintscope.edges.api.wire import AcceptedAsset, HowToPay


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


def how_to_pay(merchant: Merchant, order: Order, requirements: Sequence[Requirement]) -> HowToPay:
    """Return what a 402 says in its body, for those who cannot read its header."""
    accepts = [
        AcceptedAsset(
            asset=each.terms.asset,
            symbol=merchant.payment_token(each.terms.asset).symbol,
            decimals=each.terms.decimals,
            amount=str(each.amount),
            network=each.terms.network,
            pay_to=each.terms.pay_to,
        )
        for each in requirements
    ]
    return HowToPay(
        price_usd=f"{order.usd.normalize():f}",
        accepts=accepts,
        read=f"{merchant.origin}/llms.txt",
        buy=merchant.origin + bundle_resource(BUNDLES[0]),
    )
