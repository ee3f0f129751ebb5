"""Fake pools of the payment token, whose reserves a test sets."""

from dataclasses import dataclass, field

from mintscope.kit.primitives import Mint
from mintscope.payments.ports import ChainUnavailable
from mintscope.payments.price_cache import TokenReserves
from mintscope.payments.protocol.memo import UnusablePaymentToken
from mintscope.solana.blocks import WSOL


@dataclass
class Pools:
    """A PoolReserves that begins with enough reserves on both sides.

    answers     whether the node answers
    is_usable   whether the pools hold the payment token
    """

    base: int = 10**12
    quotes: dict[Mint, int] = field(default_factory=lambda: {WSOL: 10**13})
    answers: bool = True
    is_usable: bool = True

    async def read(self) -> TokenReserves:
        if not self.answers:
            raise ChainUnavailable("no node")
        if not self.is_usable:
            raise UnusablePaymentToken("the pools are of another token")
        return TokenReserves(base=self.base, quotes=self.quotes)
