"""Spending the credits that a wallet has bought, for requests that the wallet has signed."""

from functools import partial
from typing import Any, Final

import msgspec

from mintscope.base.errors import BadRequest, PaymentUnavailable
from mintscope.base.foreign import Undecodable
from mintscope.core.checkout.checkout import Checkout, CreditCharge, Delivered, Payer, Receipt, Work
from mintscope.core.checkout.merchant import Merchant
from mintscope.core.checkout.order import Order
from mintscope.core.checkout.refusal import CheckoutRefused, SignInRefused
from mintscope.core.credits.sign_in import (
    DRAWN_BYTES,
    SIGN_IN,
    SignInFlaw,
    Target,
    decode_sign_in,
    find_flaw,
    wallet_of,
    write_challenge,
)
from mintscope.edges.api.kept_answers import KeptAnswers, name_of
from mintscope.edges.api.refusals import NO_SALES
from mintscope.edges.server.request import Request

HEADER: Final = SIGN_IN.encode()


class SignIns:
    """Challenges wallets in a 402, and charges those that have signed."""

    def __init__(self, merchant: Merchant | None, checkout: Checkout, kept: KeptAnswers) -> None:
        self._merchant = merchant
        self._checkout = checkout
        self._kept = kept

    def challenge(self, order: Order) -> dict[str, Any]:
        """Return what a wallet signs to get *order* for its credits, as an extension of a 402."""
        merchant = self._expect_merchant()
        facilitator = merchant.facilitator
        now = facilitator.clock.now()
        return write_challenge(
            facilitator.secrets.at(now).rotation,
            _target(merchant, order),
            now=now,
            drawn=facilitator.entropy(DRAWN_BYTES),
        )

    async def authorize(self, request: Request, order: Order) -> CreditCharge:
        """Return a charge of credits of the wallet that has signed *request*.

        Raises CheckoutRefused, BadRequest and ServiceUnavailable.
        """
        merchant = self._expect_merchant()
        values = request.values(HEADER)
        try:
            sign_in = decode_sign_in(values[0] if len(values) == 1 else "")
        except Undecodable as cause:
            raise BadRequest(
                f"SIGN-IN-WITH-X: expected one header, base64 of the signed challenge; {cause}"
            ) from cause
        facilitator = merchant.facilitator
        now = facilitator.clock.now()
        await self._checkout.turn()  # for the signature is checked here
        flaw = find_flaw(
            [each.rotation for each in facilitator.secrets.in_force(now)],
            sign_in,
            _target(merchant, order),
            now=now,
        )
        if flaw is not None:
            raise await self._refuse(order, flaw)
        account = await merchant.rotations.find_credits(wallet_of(sign_in))
        return self._checkout.authorize_credit(order, Payer(account), once=sign_in.name)

    async def settle(
        self, request: Request, charge: CreditCharge, work: Work, *, key: str | None
    ) -> Receipt:
        """Do *work* for its credits.

        The nonce of a sign-in takes credits once.  After that the answer is given again to the
        holder of its Idempotency-Key, *key*; anyone else is refused.
        Raises CheckoutRefused, and what *work* raises.
        """
        account = charge.payer.account
        name = None
        if account is not None and key is not None:
            name = await name_of(request, account, f"{charge.once}\n{key}")
        began_at = self._kept.now()
        receipt = await charge.settle(partial(self._kept_or, name, work))
        if receipt.balance is None:
            return receipt
        if receipt.taken is not None:
            if name is not None:
                self._kept.keep(
                    name, receipt.report, receipt.credit_count, at=began_at, is_bought=True
                )
            return receipt
        kept = None if name is None else self._kept.find(name, is_bought=True)
        if kept is None:
            raise await self._refuse(charge.order, SignInFlaw.NONCE)
        request.response_headers.append((b"idempotent-replayed", b"true"))
        return msgspec.structs.replace(receipt, report=kept.report)

    async def _kept_or(self, name: str | None, work: Work) -> Delivered:
        kept = None if name is None else self._kept.find(name, is_bought=True)
        return kept or await work()

    async def _refuse(self, order: Order, flaw: SignInFlaw) -> CheckoutRefused:
        option = await self._checkout.option(order)
        return CheckoutRefused(SignInRefused(flaw), option=option)

    def _expect_merchant(self) -> Merchant:
        if self._merchant is None:
            raise PaymentUnavailable(NO_SALES)
        return self._merchant


def _target(merchant: Merchant, order: Order) -> Target:
    path, _, _ = order.resource.partition("?")
    return Target(merchant.origin, path, merchant.facilitator.terms.network)
