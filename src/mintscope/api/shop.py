"""What selling takes, beside the goods."""

from dataclasses import dataclass

from mintscope.payments.board import PriceBoard
from mintscope.payments.cashier import Cashier
from mintscope.payments.rotation import RotationStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Whoever has one sells requests and credits; without one only credit tokens are taken.

    origin    this service as its clients reach it, `https://api.example`; from configuration
    name      and symbol: of the payment token
    """

    cashier: Cashier
    board: PriceBoard
    rotations: RotationStore
    origin: str
    name: str
    symbol: str
