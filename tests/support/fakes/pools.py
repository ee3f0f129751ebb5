"""Pools of the payment token that hold what a test says."""

from dataclasses import dataclass, field

from mintscope.base.primitives import Mint
from mintscope.base.solana import WSOL
from mintscope.core.payments.pricing.token_market import TokenReserves
from mintscope.core.payments.protocol.mint import UnusablePaymentToken
from mintscope.core.payments.settlement import ChainUnavailable


@dataclass
class Pools:
    """A PoolReserves with enough on both sides, at first.

    answers     whether there is a node
    is_usable   whether the pools are of the payment token
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
