"""Answers to the client about a payment that has a row."""

from mintscope.core.payments.outcome import Outcome, Settled, Unresolved
from mintscope.core.payments.payment import NewToken, Payment, State
from mintscope.core.payments.protocol.refusal import Refused
from mintscope.core.payments.redelivery import Secrets


class Contradiction(Exception):
    """A stored row breaks its rules: nothing is handed out on the strength of it."""


def answer(payment: Payment, key: str, secrets: Secrets, *, is_key_ours: bool = False) -> Outcome:
    """Say what *payment* is, as the store knows it, to the holder of *key*.

    is_key_ours    the client has sent none, and learns it only if it needs it
    """
    match payment.state:
        case State.ISSUED:
            return settled(payment, key, secrets)
        case State.FAILED:
            if payment.reason is None:
                raise Contradiction(f"expected why {payment.signature} failed; there is none")
            return Refused(payment.reason, payment.signature)
        case State.PENDING | State.FROZEN:
            return Unresolved(payment=payment, key=key if is_key_ours else None)


def settled(payment: Payment, key: str, secrets: Secrets, *, redelivered: bool = False) -> Settled:
    """Return the answer to the holder of *key* whose *payment* is issued."""
    token = None
    if isinstance(payment.purchase, NewToken):
        token = secrets.token_of(payment.message_hash, key, payment.purchase.token_hash)
        if token is None:
            raise Contradiction(f"the credit token of {payment.signature} is another: new pepper?")
    return Settled(payment=payment, token=token, redelivered=redelivered)
