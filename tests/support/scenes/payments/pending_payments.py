"""Pending payments as a facilitator stores them, and the evidence that decides their outcome."""

from dataclasses import replace
from typing import Any, Final

from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.payments.payment import Dead, Landed, NewToken, Payment, Reverted
from mintscope.payments.ports import Budget, PendingPayment
from mintscope.payments.protocol.envelope import MessageHash, Resource

NOW: Final = UnixMs(1_700_000_000_000)
AMOUNT: Final = 1_000
AGAIN_MS: Final = 15_000  # the time until an outcome that is not final is checked again
LANDED: Final = Landed(paid=AMOUNT, final=False)
LANDED_FOR_GOOD: Final = Landed(paid=AMOUNT, final=True)
REVERTED: Final = Reverted(final=True)
DEAD: Final = Dead(height=1_000)
STILL_DEAD: Final = Dead(height=1_032)


def named(name: str) -> bytes:
    return name.encode().ljust(32, b".")


def new_token(name: str) -> NewToken:
    return NewToken(credits=10, token_hash=CredentialHash(named("token " + name)), hint="12345678")


def new_payment(  # noqa: PLR0913 - one argument for each part
    name: str,
    *,
    balance_after: int = 10**9,
    mark: int = 10**9,
    budget: Budget | None = None,
    quote: bytes | None = None,
    worth: int | None = None,
    **changes: Any,
) -> PendingPayment:
    payment = Payment(
        message_hash=MessageHash(named(name)),
        signature=Signature("signature of " + name),
        payer=Wallet("alice"),
        address="192.0.2.1",
        resource=Resource("/v1/credits/purchase?bundle=10"),
        amount=AMOUNT,
        purchase=new_token(name),
        key_hash=key_hash(name),
        fee_lamports=10_001,
        last_valid_height=200,
        begun_at=NOW,
        asset=Mint("scope"),
    )
    payment = replace(payment, **changes)
    return PendingPayment(
        payment=payment,
        quote=quote or named("quote " + name),
        mark=mark,
        balance_after=balance_after,
        budget=budget or Budget(),
        lease_until=UnixMs(payment.begun_at + 60_000),
        worth=worth,
    )


def key_hash(name: str) -> CredentialHash:
    return CredentialHash(named("key " + name))
