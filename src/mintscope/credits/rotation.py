"""Rotation: moves the credits of a token, or those that a wallet bought, to a new token.

The wallet signs a text of ours that names this service, the purchase and the wallet; we store
nothing of it. The signature moves the unspent credits that the wallet itself bought; the oldest
credits count as spent first. Credits that others paid for stay on the credit token, and a wallet
cannot move credits that the holder of the token has rotated.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from mintscope.credits.sign_in import find_text_flaw, write_text
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS

EVERY_MS: Final = DAY_MS  # between two rotations of one purchase by its wallet


SETTLED_MS: Final = 600_000  # a younger purchase that is in use: its buyer has the token


class RotationDenied(Enum):
    """The reason for refusing a rotation."""

    FORGED = auto()  # not our text, or for another purchase
    EXPIRED = auto()
    SIGNATURE = auto()  # not signed by the wallet that paid
    TOO_SOON = auto()  # rotated within a day, or newly bought and in use
    ROTATED = auto()  # the credits were moved to another token before
    EMPTY = auto()  # no credits left, or none that this wallet bought


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchased:
    """The payer of a purchase, and the account that now holds its credits.

    holder        may also hold other credits
    rotated_at    the last time that its credits were rotated; None: never
    """

    payer: Wallet
    holder: CreditAccount
    bought_at: UnixMs
    rotated_at: UnixMs | None
    is_used: bool


class RotationStore(Protocol):
    """Stores rotations.  Every method raises ServiceUnavailable if the store does not answer."""

    async def find_purchase(self, signature: Signature) -> Purchased | None:
        """Return the issued purchase of credits that the transaction *signature* paid for."""

    async def find_credits(self, wallet: Wallet) -> CreditAccount | None:
        """Return the account with the most credits that *wallet* bought; None if there is none.

        Only accounts count whose credits all come from purchases of *wallet*, and that have no
        owner.
        """

    async def rotate(
        self, holder: CreditAccount, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move all credits of *holder* to a new token, in one transaction; return their number.

        The rotation is denied if *holder* has no credits, or was rotated before.
        """

    async def claim(
        self, purchase: Signature, token_hash: CredentialHash, hint: str, *, now: UnixMs
    ) -> int | RotationDenied:
        """Move the credits of the payer of *purchase* to a new token; return their number.

        All purchases of that payer count if their credits are in one account. `decide` is called
        in the transaction that moves the credits.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A request for a rotation: the service, the purchase, and the wallet."""

    origin: str
    purchase: Signature
    wallet: Wallet


def write_challenge(key: bytes, claim: Claim, *, now: UnixMs, nonce: bytes) -> str:
    """Return the text that the wallet must sign."""
    return write_text(key, _body(claim), now=now, nonce=nonce)


def find_flaw(
    key: bytes, claim: Claim, *, text: str, signature: bytes, now: UnixMs
) -> RotationDenied | None:
    """Return the flaw in *text* and *signature* as a proof of *claim*; None if they prove it."""
    flaw = find_text_flaw(
        key, _body(claim), wallet=claim.wallet, text=text, signature=signature, now=now
    )
    return None if flaw is None else RotationDenied[flaw.name]


def decide(purchased: Purchased, *, now: UnixMs) -> RotationDenied | None:
    """Return the reason not to rotate this purchase now for the wallet that paid, or None."""
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
