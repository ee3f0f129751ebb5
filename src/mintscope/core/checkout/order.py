"""The orders of clients, and their cost at the prices of the minute."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from mintscope.core.payments.pricing.price_list import REQUEST_USD, Bundle, PriceList
from mintscope.core.payments.protocol.requirement import Resource


@dataclass(frozen=True, slots=True)
class Order:
    """A resource and its price.

    price               in atoms of the token whose prices are given
    usd                 the same in USD, exact
    fee_lamports_max    the most that landing its payment may cost us; None for any fee
    key                 the redelivery key of the client that asks, None where it sent none
    is_for_credits      only credits are taken: what it costs is known once it was delivered
    """

    resource: Resource
    price: Callable[[PriceList], int]
    fee_lamports_max: Callable[[PriceList], int | None] = lambda _: None
    key: str | None = None
    is_for_credits: bool = False
    usd: Decimal = REQUEST_USD

    def is_worth(self, fee_lamports: int, price_list: PriceList) -> bool:
        """Say whether a payment may cost us *fee_lamports*."""
        most = self.fee_lamports_max(price_list)
        return most is None or fee_lamports <= most


def report_order(resource: Resource) -> Order:
    """Return the order of one report, named *resource* at the front that sells it."""
    return Order(
        resource,
        price=lambda price_list: price_list.request,
        fee_lamports_max=lambda price_list: price_list.request_fee_lamports_max,
    )


def bundle_order(resource: Resource, bundle: Bundle) -> Order:
    """Return the order of *bundle*, named *resource* at the front that sells it."""
    return Order(resource, lambda price_list: price_list.price(bundle).price, usd=bundle.usd)
