"""The side that sells, for a service that takes payments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mintscope.base.errors import PriceUnavailable
from mintscope.base.primitives import Mint
from mintscope.core.checkout.order import Order
from mintscope.core.credits.rotation import RotationStore
from mintscope.core.payments.adopter import Adopter
from mintscope.core.payments.books.closure import Closure
from mintscope.core.payments.facilitator import Facilitator
from mintscope.core.payments.payment import Payment
from mintscope.core.payments.pricing.price_cache import NO_PRICE, PriceCache
from mintscope.core.payments.pricing.price_list import PriceList
from mintscope.core.payments.protocol.requirement import Requirement, Terms
from mintscope.core.payments.protocol.verify import FEE_LAMPORTS_USUAL
from mintscope.core.payments.signed_receipt import public_key, sign_receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedToken:
    """A token that payments are taken in, and its price.

    name, symbol    for clients
    """

    terms: Terms
    price_cache: PriceCache
    name: str
    symbol: str


def nothing_closed() -> None:
    """Return that sales are open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merchant:
    """Sells requests and credits.

    payment_tokens    the payment token, then those that are taken beside it
    origin            this service as its clients reach it, `https://api.example`
    closure           returns whom nothing is sold to, as of the last look
    """

    facilitator: Facilitator
    payment_tokens: Sequence[AcceptedToken]
    rotations: RotationStore
    adopter: Adopter
    origin: str
    closure: Callable[[], Closure | None] = nothing_closed

    def is_closed(self) -> bool:
        """Say whether nothing is sold to anybody now: then nothing is quoted either."""
        closure = self.closure()
        return closure is not None and closure.is_for_all

    def payment_token(self, asset: str) -> AcceptedToken:
        """Return the one whose mint is *asset*; the payment token itself where none is."""
        found = (each for each in self.payment_tokens if each.terms.asset == asset)
        return next(found, self.payment_tokens[0])

    async def priced(self) -> Sequence[tuple[AcceptedToken, PriceList]]:
        """Return those tokens that have a price now, with the prices of this minute.

        Raises PriceUnavailable where none has.
        """
        priced = []
        doubts = []
        for each in self.payment_tokens:
            try:
                priced.append((each, await each.price_cache.price_list()))
            except PriceUnavailable as doubt:
                doubts.append(doubt)
        if not priced:
            raise doubts[0]
        return priced

    async def quote(self, order: Order) -> Sequence[Requirement]:
        """Return the terms on which *order* can be paid for.

        None if only credits are taken, or while sales are closed.  Raises PriceUnavailable.
        """
        if order.is_for_credits or self.is_closed():
            return []
        return [
            self.facilitator.require(
                order.resource, order.price(price_list), order.key, terms=each.terms
            )
            for each, price_list in await self.priced()
            if order.is_worth(FEE_LAMPORTS_USUAL, price_list)
        ]

    async def quote_in(self, order: Order, asset: Mint) -> Requirement:
        """Return the terms on which *order*, which is not for credits, is paid for in *asset*.

        Raises PriceUnavailable.
        """
        for each in await self.quote(order):
            if each.terms.asset == asset:
                return each
        raise PriceUnavailable(NO_PRICE)

    def sign_receipt(self, payment: Payment) -> str:
        """Return the signed receipt of *payment*, which has settled."""
        secrets = self.facilitator.secrets.at(payment.begun_at)
        network = self.facilitator.terms.network
        return sign_receipt(secrets.receipt, payment, origin=self.origin, network=network)

    def receipt_keys(self) -> Sequence[bytes]:
        """Return the public keys of signed receipts, newest first, 32 bytes each."""
        return [public_key(each.receipt) for each in self.facilitator.secrets.all()]

    def distrust_prices(self) -> None:
        """Look at every token again before anything more is sold."""
        for each in self.payment_tokens:
            each.price_cache.distrust()
