"""Rotation: moves the credits of a credit token, or those that a wallet bought, to a new token.

For a rotation by wallet, the service writes a text that names the service, the purchase and the
wallet, and does not store it.  The wallet signs the text.  The signature moves the unspent credits
that the wallet bought; the oldest credits count as spent first.  Credits that others paid
for stay on the credit token, and a wallet cannot move credits that the holder of the token has
rotated.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from mintscope.credits.sign_in import find_text_flaw, write_text
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS

EVERY_MS: Final = DAY_MS  # minimum time between two rotations of a purchase by its wallet


SETTLED_MS: Final = 600_000  # a wallet cannot rotate a younger purchase whose credits were used


class RotationDenied(Enum):
    """A reason to refuse to move credits to a new credit token."""

    FORGED = auto()  # the service did not write the text, or wrote it for another `Claim`
    EXPIRED = auto()
    SIGNATURE = auto()  # the wallet that paid has not signed the text
    TOO_SOON = auto()  # rotated less than EVERY_MS ago, or bought less than SETTLED_MS ago and used
    ROTATED = auto()  # the credits were already moved to another token
    EMPTY = auto()  # no credits are left, or none that the wallet can move


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchased:
    """The payer of a purchase, and the account that now holds its credits.

    holder        the account that now has the credits; it can also have other credits
    rotated_at    the time when the credits were last moved to another account; None: never
    is_used       whether the balance of *holder* differs from the credits of the purchase
    """

    payer: Wallet
    holder: CreditAccount
    bought_at: UnixMs
    rotated_at: UnixMs | None
    is_used: bool


class RotationStore(Protocol):
    """Finds and moves the credits of credit tokens and of wallets.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return the issued credit purchase of transaction *signature*, or None if not found."""

    async def find_credits(self, wallet: Wallet) -> CreditAccount | None:
        """Return the account with the most credits that *wallet* bought, or None if not found.

        An account counts only if it has no owner, and if all its credits come from purchases of
        *wallet*.  Of the accounts with purchases of *wallet*, only the 20 with the highest balances
        are considered.
        """

    async def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder* to a new credit token, in one transaction.

        Return the number of credits; the same number again if they were already moved to the same
        token.  Return EMPTY if *holder* has no credits, and ROTATED if they were moved to another
        token.

        token_hash   the hash of the new token
        hint         the last eight characters of the new token
        """

    async def claim(
        self, purchase: Signature, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move the credits that the payer of *purchase* bought to a new credit token.

        Credits of the payer's other purchases are also moved, if the same account holds them.
        Return the number of credits; the same number again if they were already moved to the same
        token.  Return the reason if the payer must wait before moving them again, or may move none.

        token_hash   the hash of the new token
        hint         the last eight characters of the new token
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A request to move the credits that *wallet* bought with *purchase* to a new credit token.

    origin   the origin of this service, such as `https://api.example`
    """

    origin: str
    purchase: Signature
    wallet: Wallet


def write_challenge(key: bytes, claim: Claim, *, now: UnixMs, nonce: bytes) -> str:
    """Return the text that a wallet must sign to prove *claim*; valid for VALID_S seconds."""
    return write_text(key, _body(claim), now=now, nonce=nonce)


def find_flaw(
    key: bytes, claim: Claim, *, text: str, signature: bytes, now: UnixMs
) -> RotationDenied | None:
    """Return the reason why *text* and *signature* do not prove *claim*; None if they do."""
    flaw = find_text_flaw(
        key, _body(claim), wallet=claim.wallet, text=text, signature=signature, now=now
    )
    # RotationDenied has a member for each member of ChallengeFlaw, with the same name.
    return None if flaw is None else RotationDenied[flaw.name]


def decide(purchased: Purchased, *, now: UnixMs) -> RotationDenied | None:
    """Return TOO_SOON if the payer must wait before moving the credits of *purchased* again.

    Return None if the payer may move them now.
    """
    if purchased.rotated_at is not None and now - purchased.rotated_at < EVERY_MS:
        return RotationDenied.TOO_SOON
    if purchased.is_used and now - purchased.bought_at < SETTLED_MS:
        return RotationDenied.TOO_SOON
    return None


def _body(claim: Claim) -> str:
    return (
        f"{claim.origin} wants you to sign in with your wallet to move the credits of a"
        " purchase to a new credit token. This costs nothing.\n"
        f"\nPurchase: {claim.purchase}\nWallet: {claim.wallet}\n"
    )
