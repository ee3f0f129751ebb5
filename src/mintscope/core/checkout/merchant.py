"""The side that sells, for a service that takes payments."""

from dataclasses import dataclass

from mintscope.core.checkout.order import Order
from mintscope.core.credits.rotation import RotationStore
from mintscope.core.payments.adopter import Adopter
from mintscope.core.payments.facilitator import Facilitator
from mintscope.core.payments.pricing.price_cache import PriceCache
from mintscope.core.payments.protocol.requirement import Requirement
from mintscope.core.payments.protocol.verify import FEE_LAMPORTS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Merchant:
    """Sells requests and credits for the payment token.

    origin                      this service as its clients reach it, `https://api.example`
    asset_name, asset_symbol    of the payment token
    """

    facilitator: Facilitator
    price_cache: PriceCache
    rotations: RotationStore
    adopter: Adopter
    origin: str
    asset_name: str
    asset_symbol: str

    async def quote(self, order: Order) -> Requirement | None:
        """Return the terms on which *order* can be paid for; None where only credits are taken.

        Raises PriceUnavailable.
        """
        if order.is_for_credits:
            return None
        price_list = await self.price_cache.price_list()
        if not order.is_worth(FEE_LAMPORTS_USUAL, price_list):
            return None
        return self.facilitator.require(order.resource, order.price(price_list), order.key)
