"""The names under which this front sells, what was sold under them, and how it is paid for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from msgspec import NODEFAULT, UNSET

from mintscope.base.primitives import Mint
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.checkout.order import Order
from mintscope.core.market.series.candles import WIDTHS
from mintscope.core.market.timeframe import Timeframe
from mintscope.core.payments.books.orphans import SoldItem
from mintscope.core.payments.pricing.price_list import BUNDLES, Bundle
from mintscope.core.payments.protocol.advert import Advert
from mintscope.core.payments.protocol.headers import NO_MORE
from mintscope.core.payments.protocol.requirement import Requirement, Resource, ResourceKind
from mintscope.edges.api.data.series.indicator_wire import IndicatorsQuery
from mintscope.edges.api.data.series.wire import CandlesQuery, SwapsQuery
from mintscope.edges.api.wire import AcceptedAsset, HowToPay

# Reports, pages of series and pages of screens: each costs one credit.
TOKEN_KIND: Final = ResourceKind("/v1/token")
SCREEN_KIND: Final = ResourceKind("/v1/screen")
QUERY_MAX: Final = 256  # characters: a resource stands in headers


def bundle_resource(bundle: Bundle) -> Resource:
    """Return where *bundle* is sold."""
    return Resource(f"/v1/credits/purchase?bundle={bundle.credits}")


def report_resource(mint: Mint) -> Resource:
    """Return where the report of *mint* is sold."""
    return Resource(f"/v1/token/{mint}")


def series_resource(mint: Mint, kind: str, query: msgspec.Struct) -> Resource:
    """Return where a page of a series of *mint* is sold: its path, and what was asked for."""
    return Resource(f"/v1/token/{mint}/{kind}?{_asked(query)}".rstrip("?"))


def screen_resource(query: msgspec.Struct, shape: type[msgspec.Struct]) -> Resource:
    """Return where a page of a screen is sold: its path, and what was asked for of *shape*.

    A long query is named by its digest.
    """
    asked = _asked(msgspec.convert(query, shape, from_attributes=True))
    if len(asked) > QUERY_MAX:
        asked = f"sha256={sha256(asked.encode()).hexdigest()}"
    return Resource(f"/v1/screen?{asked}".rstrip("?"))


def _asked(query: msgspec.Struct) -> str:
    """Return what *query* says other than by default."""
    defaults = {
        field.name: field.default if field.default_factory is NODEFAULT else field.default_factory()
        for field in msgspec.structs.fields(query)
    }
    return urlencode(
        [
            (field.encode_name, _text(value))
            for field in msgspec.structs.fields(query)
            if (value := getattr(query, field.name)) != defaults[field.name]
        ]
    )


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


# Behind the mint, as they are sold to those who name a timeframe and no more.
NEWEST_PAGES: Final = [
    series_resource(Mint(""), kind, query).removeprefix("/v1/token/")
    for kind, queries in (
        ("candles", [msgspec.convert({"tf": tf}, CandlesQuery) for tf in WIDTHS]),
        ("indicators", [msgspec.convert({"tf": tf}, IndicatorsQuery) for tf in Timeframe]),
        ("swaps", [SwapsQuery()]),
    )
    for query in queries
]


def bundle_offers() -> Iterator[SoldItem]:
    """Return every bundle."""
    return (SoldItem(bundle_resource(bundle), bundle.credits) for bundle in BUNDLES)


def report_offers(mints: Iterable[Mint]) -> Iterator[SoldItem]:
    """Return what is sold of tokens: each costs what a credit costs.

    By their names the reports of *mints*, and their newest pages.  The last two stand for all
    others: pages that were asked for by a range, a cursor or a limit, mints that are tracked no
    more, and screens.
    """
    for mint in mints:
        yield SoldItem(report_resource(mint), 1)
        for page in NEWEST_PAGES:
            yield SoldItem(Resource(f"/v1/token/{mint}{page}"), 1)
    yield SoldItem(TOKEN_KIND, 1)
    yield SoldItem(SCREEN_KIND, 1)


def how_to_pay(  # noqa: PLR0913 - one argument for each part
    merchant: Merchant,
    order: Order,
    requirements: Sequence[Requirement],
    advert: Advert | None,
    *,
    trial: str | None = None,
    more: Mapping[str, Any] = NO_MORE,
) -> HowToPay:
    """Return the details of a 402 body, for clients that cannot read its header.

    trial   the path of the same for free, None if there is none
    more    extensions of x402 beside that of *advert*
    """
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
    extensions = dict(more) if advert is None else {"bazaar": advert.bazaar} | dict(more)
    return HowToPay(
        price_usd=f"{order.usd.normalize():f}",
        accepts=accepts,
        read=f"{merchant.origin}/llms.txt",
        buy=merchant.origin + bundle_resource(BUNDLES[0]),
        trial=UNSET if trial is None else merchant.origin + trial,
        description=UNSET if advert is None else advert.description,
        extensions=extensions or UNSET,
    )
