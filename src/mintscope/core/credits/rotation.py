"""Moving credits to a new credit token: all of one, or on proof those that a wallet paid for.

The wallet signs a text of ours that names this service, the purchase and the wallet; nothing is
stored of it. It proves the credits that its own purchases brought and that are left, the oldest
being spent first. What others paid for stays with the credit token, and what its holder has
rotated is the holder's alone.
"""

import hmac
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from solders.pubkey import Pubkey
from solders.signature import Signature as Ed25519

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.base.time import DAY_MS

VALID_S: Final = 300
NONCE_BYTES: Final = 16
EVERY_MS: Final = DAY_MS  # between two rotations of one purchase by its wallet
SETTLED_MS: Final = 600_000  # while it is younger and in use, its buyer has the token
_LAST_LINE: Final = re.compile(r"Proof: (\d{1,16})-([0-9a-f]{32})-[0-9a-f]{64}")


class RotationDenied(Enum):
    """Why nothing is moved."""

    FORGED = auto()  # not a text of ours, or one for something else
    EXPIRED = auto()
    SIGNATURE = auto()  # not signed by the wallet that paid
    TOO_SOON = auto()  # rotated within a day, or just bought and in use
    ROTATED = auto()  # the credits went to another credit token before
    EMPTY = auto()  # there are no credits, or none that this proof is of


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchased:
    """Where the credits of a purchase are now.

    holder        the account that holds them, beside whatever else came to it
    rotated_at    None for never
    """

    payer: Wallet
    holder: CreditAccount
    bought_at: UnixMs
    rotated_at: UnixMs | None
    is_used: bool


class RotationStore(Protocol):
    """Raises ServiceUnavailable from every verb when the store does not answer."""

    async def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return the issued purchase of credits that the transaction paid for."""

    async def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder* to a new token, in one transaction; return how many.

        Denied, in that transaction, if there are none or *holder* was rotated before.
        """

    async def claim(
        self, purchase: Signature, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move what the payer of *purchase* proves to a new token; return how many credits.

        All its purchases count whose credits are where those of *purchase* are. `decide` is
        asked in the transaction that moves them.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a rotation is asked for: by whom, of what, at which service."""

    origin: str
    purchase: Signature
    wallet: Wallet


def write_challenge(key: bytes, claim: Claim, *, now: UnixMs, nonce: bytes) -> str:
    """Return the text that the wallet must sign."""
    assert len(nonce) == NONCE_BYTES
    return _text(key, claim, expires_s=now // 1000 + VALID_S, nonce=nonce.hex())


def find_flaw(
    key: bytes, claim: Claim, *, text: str, signature: bytes, now: UnixMs
) -> RotationDenied | None:
    """Say why *text* and *signature*, both as sent, do not prove *claim*."""
    last_line = _LAST_LINE.fullmatch(text.rpartition("\n")[2])
    if last_line is None:
        return RotationDenied.FORGED
    expires_s, nonce = int(last_line[1]), last_line[2]
    ours = _text(key, claim, expires_s=expires_s, nonce=nonce)
    if not hmac.compare_digest(ours.encode(), text.encode(errors="replace")):
        return RotationDenied.FORGED
    if now > expires_s * 1000:
        return RotationDenied.EXPIRED
    if not _is_signed(claim.wallet, text, signature):
        return RotationDenied.SIGNATURE
    return None


def decide(purchased: Purchased, *, now: UnixMs) -> RotationDenied | None:
    """Say why the wallet that paid may not rotate this purchase now."""
    if purchased.rotated_at is not None and now - purchased.rotated_at < EVERY_MS:
        return RotationDenied.TOO_SOON
    if purchased.is_used and now - purchased.bought_at < SETTLED_MS:
        return RotationDenied.TOO_SOON
    return None


def _text(key: bytes, claim: Claim, *, expires_s: int, nonce: str) -> str:
    body = (
        f"{claim.origin} wants you to sign in with your wallet to move the credits of a"
        " purchase to a new credit token. This costs nothing.\n"
        f"\nPurchase: {claim.purchase}\nWallet: {claim.wallet}\n"
    )
    proof = f"Proof: {expires_s}-{nonce}"
    mac = hmac.new(key, (body + proof).encode(), "sha256").hexdigest()
    return f"{body}{proof}-{mac}"


def _is_signed(wallet: Wallet, text: str, signature: bytes) -> bool:
    try:
        return Ed25519.from_bytes(signature).verify(Pubkey.from_string(wallet), text.encode())
    except ValueError:
        return False
