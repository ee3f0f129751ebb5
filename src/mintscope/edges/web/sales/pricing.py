"""All prices: bundles of credits, single requests, and errors, which cost nothing."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mintscope.core.payments.pricing.price_list import BUNDLES, REQUEST_USD, Bundle, PriceList
from mintscope.edges.web.docs.reference import DescribedEndpoint, Reference
from mintscope.edges.web.pages.page import Page, PageResponse
from mintscope.edges.web.routes import PageRequest, PageRoute, get
from mintscope.edges.web.sales.selling import CreditSales, PricedToken
from mintscope.edges.web.sales.words import tokens_text

FREE: Final = "free"
# Free endpoints that are listed one by one: those that people come for.
TOLD_AREA: Final = "Market data"


class PricingPages:
    """The page at `/pricing`.

    sales            None where nothing is for sale
    read_reference   returns what the API says of itself; None where there is no API beside
    """

    def __init__(
        self, sales: CreditSales | None, read_reference: Callable[[], Reference] | None
    ) -> None:
        self._sales = sales
        self._read_reference = read_reference

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get("/pricing", self.show)

    async def show(self, _request: PageRequest) -> PageResponse:
        """Show what everything costs now."""
        priced = [] if self._sales is None else await self._sales.priced()
        quoted = [each.quote.observed_at for _, each in priced if each is not None]
        facts: dict[str, Any] = {
            "bundles": [_line(bundle, priced) for bundle in BUNDLES],
            "request_usd": f"{REQUEST_USD.normalize():f}",
            "request_amounts": _amounts(priced, lambda price_list: price_list.request),
            "quoted_at": min(quoted, default=None),
            "symbols": [token.symbol for token, _ in priced],
            "unpriced": [token.symbol for token, price_list in priced if price_list is None],
            "is_sold": self._sales is not None,
        }
        return Page("sales/pricing.html", facts | self._costs())

    def _costs(self) -> dict[str, Any]:
        """Return the cost of each call by the API; *others* are free and not listed."""
        if self._read_reference is None:
            return {"costs": [], "others": [], "other_count": 0}
        areas = self._read_reference().areas
        charged = [each for area in areas for each in area.endpoints if each.cost != FREE]
        free = {area.name: [each for each in area.endpoints if each.cost == FREE] for area in areas}
        told: list[DescribedEndpoint] = free.pop(TOLD_AREA, [])
        return {
            "costs": charged + told,
            "others": [name for name, endpoints in free.items() if endpoints],
            "other_count": sum(map(len, free.values())),
        }


def _line(bundle: Bundle, priced: Sequence[PricedToken]) -> dict[str, Any]:
    """Return what the table says of *bundle*."""
    return {
        "credits": bundle.credits,
        "discount_percent": bundle.discount_percent,
        "usd": usd_text(bundle),
        "usd_per_credit": f"{bundle.usd_per_credit.normalize():f}",
        "amounts": _amounts(priced, lambda price_list: price_list.price(bundle).price),
    }


def _amounts(
    priced: Sequence[PricedToken], atoms: Callable[[PriceList], int]
) -> list[tuple[str, str | None]]:
    """Return each token's symbol and what *atoms* says in it; None without a price."""
    return [
        (
            token.symbol,
            None if price_list is None else tokens_text(atoms(price_list), price_list.decimals),
        )
        for token, price_list in priced
    ]


def usd_text(bundle: Bundle) -> str:
    """Return what *bundle* costs in USD, exact, with two decimals at least."""
    text = f"{bundle.usd.normalize():f}"
    whole, _, cents = text.partition(".")
    return f"{whole}.{cents:0<2}"
