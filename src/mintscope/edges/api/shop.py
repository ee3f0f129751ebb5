"""What selling takes, beside the goods."""

from dataclasses import dataclass

from mintscope.core.payments.facilitator import Facilitator
from mintscope.core.payments.pricing.price_cache import PriceCache
from mintscope.core.payments.rotation import RotationStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Whoever has one sells requests and credits; without one only credit tokens are taken.

    origin    this service as its clients reach it, `https://api.example`; from configuration
    name      and symbol: of the payment token
    """

    facilitator: Facilitator
    board: PriceCache
    rotations: RotationStore
    origin: str
    name: str
    symbol: str
