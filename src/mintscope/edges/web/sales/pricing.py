"""What everything costs: bundles of credits, single requests, and errors, which cost nothing."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from mintscope.base.errors import PriceUnavailable
from mintscope.core.payments.pricing.price_list import BUNDLES, REQUEST_USD, Bundle, PriceList
from mintscope.edges.web.pages.page import Page, PageResponse
from mintscope.edges.web.routes import PageRequest, PageRoute, get
from mintscope.edges.web.sales.selling import CreditSales
from mintscope.edges.web.sales.words import tokens_text

# What is asked for, how much of it one price buys, and the price in credits; the table of the page.
COSTS: Final = (
    ("Report of a token", "GET /v1/token/{mint}", "price, indicators, pressure", "1"),
    (
        "Reports of many",
        "POST /v1/tokens/batch",
        "up to 50 tokens; those delivered count",
        "1 each",
    ),
    ("Candles", "GET /v1/token/{mint}/candles", "a page of up to 1,000", "1"),
    ("Indicators over time", "GET /v1/token/{mint}/indicators", "a page of up to 1,000", "1"),
    ("Swaps", "GET /v1/token/{mint}/swaps", "a page of up to 500", "1"),
    ("Stream", "GET /v1/stream", "each token, each started minute", "1"),
    ("List and search", "GET /v1/tokens", "every token that is followed", "free"),
    ("Facts of a mint", "GET /v1/token/{mint}/metadata", "supply, authorities, risks", "free"),
    ("Everything else", "demo, account, watchlists", "all that is not listed", "free"),
    ("Any error", "4xx and 5xx", "unknown token, stale data, too fast, our fault", "free"),
)


class PricingPages:
    """The page at `/pricing`."""

    def __init__(self, sales: CreditSales | None) -> None:
        self._sales = sales

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get("/pricing", self.show)

    async def show(self, _request: PageRequest) -> PageResponse:
        """Show what everything costs now."""
        price_list, symbol, beside = None, "", ""
        if self._sales is not None:
            token, *others = self._sales.merchant.payment_tokens
            beside = "".join(f" or {each.symbol}" for each in others)
            symbol = token.symbol
            with suppress(PriceUnavailable):  # prices in USD stand
                price_list = await token.price_cache.price_list()
        request = None if price_list is None else _tokens(price_list.request, price_list)
        facts: dict[str, Any] = {
            "bundles": [_line(bundle, price_list) for bundle in BUNDLES],
            "request_usd": f"{REQUEST_USD.normalize():f}",
            "request_tokens": request,
            "quoted_at": None if price_list is None else price_list.quote.observed_at,
            "symbol": symbol,
            "beside": beside,
            "is_sold": self._sales is not None,
            "costs": COSTS,
        }
        return Page("sales/pricing.html", facts)


def _line(bundle: Bundle, price_list: PriceList | None) -> dict[str, Any]:
    """Return what the table says of *bundle*; *tokens* is None without a price."""
    atoms = None if price_list is None else price_list.price(bundle).price
    return {
        "credits": bundle.credits,
        "discount_percent": bundle.discount_percent,
        "usd": usd_text(bundle),
        "usd_per_credit": f"{bundle.usd_per_credit.normalize():f}",
        "tokens": None if price_list is None or atoms is None else _tokens(atoms, price_list),
    }


def usd_text(bundle: Bundle) -> str:
    """Return what *bundle* costs in USD, exact, with two decimals at least."""
    text = f"{bundle.usd.normalize():f}"
    whole, _, cents = text.partition(".")
    return f"{whole}.{cents:0<2}"


def _tokens(atoms: int, price_list: PriceList) -> str:
    return tokens_text(atoms, price_list.decimals)
