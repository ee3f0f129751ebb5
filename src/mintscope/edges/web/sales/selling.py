"""Where people at a browser pay: the same checkout as for programs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from solders.pubkey import Pubkey

from mintscope.base.errors import PriceUnavailable
from mintscope.base.primitives import Mint
from mintscope.core.checkout.checkout import Checkout
from mintscope.core.checkout.merchant import AcceptedToken, Merchant
from mintscope.core.checkout.order import Order, bundle_order
from mintscope.core.checkout.proposal import NotProposed, Proposal, propose
from mintscope.core.payments.demand import Wanted
from mintscope.core.payments.outcome import Settled
from mintscope.core.payments.pricing.price_list import Bundle, PriceList
from mintscope.core.payments.protocol.envelope import open_envelope
from mintscope.core.payments.protocol.headers import Presented
from mintscope.core.payments.protocol.refusal import Refused
from mintscope.core.payments.protocol.requirement import SCHEME, Resource, Terms
from mintscope.core.payments.protocol.verify import transferred


class PricedToken(NamedTuple):
    """A token that payments are taken in; *price_list* is None while it has no reliable price."""

    token: AcceptedToken
    price_list: PriceList | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditSales:
    """Sells bundles of credits.

    resource       names a bundle as the API does: a payment for it is the same one there
    expect_open    raises ServiceUnavailable while nothing is sold to anybody
    """

    checkout: Checkout
    merchant: Merchant
    resource: Callable[[Bundle], Resource]
    expect_open: Callable[[], Awaitable[None]]

    async def priced(self) -> Sequence[PricedToken]:
        """Return every token that is taken, the payment token first."""
        return [PricedToken(each, await _price_list(each)) for each in self.merchant.payment_tokens]

    async def propose(
        self, bundle: Bundle, payer: Pubkey, key: str, asset: Mint, *, address: str
    ) -> Proposal | NotProposed:
        """Write out the payment in *asset* that *payer* must sign, quoted to the holder of *key*.

        address    the client's
        Raises     PriceUnavailable, and ServiceUnavailable while nothing is sold
        """
        await self.expect_open()
        order = self._order(bundle, key)
        return await propose(self.merchant, order, payer, asset, address=address)

    async def pay(
        self,
        bundle: Bundle,
        transaction: bytes,
        *,
        key: str,
        address: str,
        wanted: Callable[[], Awaitable[Wanted]],
    ) -> Settled:
        """Take the signed payment for what *wanted* returns; again the same answer.

        key        the redelivery key, made in the browser
        address    the client's
        Raises     CheckoutRefused, PriceUnavailable, ServiceUnavailable
        """
        terms, amount = self._paid(transaction)
        presented = Presented(
            transaction=transaction,
            scheme=SCHEME,
            network=terms.network,
            asset=terms.asset,
            pay_to=terms.pay_to,
            amount=amount,
            identifier=None,
        )
        order = self._order(bundle, key)
        charge = await self.checkout.authorize_payment(order, presented, key=key, address=address)
        return await charge.pay(wanted)

    def _order(self, bundle: Bundle, key: str) -> Order:
        return replace(bundle_order(self.resource(bundle), bundle), key=key)

    def _paid(self, transaction: bytes) -> tuple[Terms, int]:
        """Return the terms and the atoms of *transaction*; 0, which no quote is for, of none."""
        envelope = open_envelope(transaction)
        terms = self.merchant.facilitator.terms
        if isinstance(envelope, Refused):
            return terms, 0
        for each in self.merchant.payment_tokens:
            if each.terms.treasury in envelope.accounts:
                terms = each.terms
        return terms, transferred(envelope) or 0


async def _price_list(token: AcceptedToken) -> PriceList | None:
    try:
        return await token.price_cache.price_list()
    except PriceUnavailable:
        return None
