"""A wallet proves its purchase with a signed challenge, which is valid for five minutes."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.credits.rotation import (
    Claim,
    Purchased,
    RotationDenied,
    decide,
    find_flaw,
    write_challenge,
)
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from support.scenes.payments.payment_build import PAYER, keypair

KEY: Final = b"k" * 32
NOW: Final = UnixMs(1_700_000_000_000)
CLAIM: Final = Claim(
    origin="https://api.example",
    purchase=Signature("5" * 88),
    wallet=Wallet(str(PAYER.pubkey())),
)
TEXT: Final = write_challenge(KEY, CLAIM, now=NOW, nonce=bytes(16))
SIGNED: Final = bytes(PAYER.sign_message(TEXT.encode()))


def flaw(claim: Claim = CLAIM, **changes: Any) -> RotationDenied | None:
    proof: dict[str, Any] = {"text": TEXT, "signature": SIGNED, "now": NOW}
    return find_flaw(KEY, claim, **(proof | changes))


def test_the_payers_signature_is_a_proof_for_five_minutes() -> None:
    last = UnixMs(NOW + 300_000)

    assert flaw() is None
    assert flaw(now=last) is None
    assert flaw(now=UnixMs(last + 1)) is RotationDenied.EXPIRED


def test_the_challenge_names_service_purchase_and_wallet() -> None:
    assert TEXT.startswith("https://api.example wants you to sign in with your wallet")
    assert f"Purchase: {CLAIM.purchase}\nWallet: {CLAIM.wallet}\n" in TEXT


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "https://evil.example"},
        {"purchase": Signature("6" * 88)},
        {"wallet": Wallet(str(keypair("stranger").pubkey()))},
    ],
)
def test_a_proof_is_refused_for_another_service_purchase_or_wallet(change: dict[str, Any]) -> None:
    assert flaw(replace(CLAIM, **change)) is RotationDenied.FORGED


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        bytes(64),
        SIGNED[:-1],
        SIGNED + b"\0",
        bytes(keypair("stranger").sign_message(TEXT.encode())),
        bytes(PAYER.sign_message(b"another text")),
    ],
)
def test_an_invalid_signature_is_refused(signature: bytes) -> None:
    assert flaw(signature=signature) is RotationDenied.SIGNATURE


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.text(max_size=300)
    | st.integers(0, len(TEXT) - 1).map(lambda at: TEXT[:at] + "x" + TEXT[at + 1 :])
)
def test_a_text_that_differs_from_the_challenge_is_forged(text: str) -> None:
    if text != TEXT:
        signature = bytes(PAYER.sign_message(text.encode(errors="replace")))
        assert flaw(text=text, signature=signature) is RotationDenied.FORGED


def test_a_text_with_a_lone_surrogate_is_forged() -> None:
    assert flaw(text=f"\ud800\nProof: 1-{'0' * 32}-{'0' * 64}") is RotationDenied.FORGED


PURCHASED: Final = Purchased(
    payer=CLAIM.wallet,
    holder=CreditAccount(1),
    bought_at=NOW,
    rotated_at=None,
    is_used=False,
)


@pytest.mark.parametrize(
    ("change", "after_ms", "denied"),
    [
        ({}, 0, None),
        ({"is_used": True}, 600_000 - 1, RotationDenied.TOO_SOON),
        ({"is_used": True}, 600_000, None),
        ({"rotated_at": NOW}, 86_400_000 - 1, RotationDenied.TOO_SOON),
        ({"rotated_at": NOW}, 86_400_000, None),
    ],
)
def test_used_credits_rotate_after_ten_minutes_and_rotated_credits_after_a_day(
    change: dict[str, Any], after_ms: int, denied: RotationDenied | None
) -> None:
    assert decide(replace(PURCHASED, **change), now=UnixMs(NOW + after_ms)) is denied
