"""Wallets of users: linked by a signature, and what they have paid for."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

from mintscope.base.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.core.accounts.user import UserId

WALLETS_MAX: Final = 20


class LinkDenied(Enum):
    """Why a wallet is not linked."""

    TOO_MANY = auto()


@dataclass(frozen=True, slots=True)
class LinkedWallet:
    """A wallet that has proven to be the user's."""

    wallet: Wallet
    linked_at: UnixMs


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletPayment:
    """A payment of a wallet, as its receipt has it.

    resource      what was paid for
    amount        atoms that were asked for
    paid          atoms that arrived; 0 until they have
    credit_count  that it bought; 0 for a request of its own
    state         pending, issued, failed or frozen
    reason        why it failed or is frozen
    settled_at    of the last change of its state; None: pending
    asset         the token of its atoms; None: begun before two were taken at once
    """

    signature: Signature
    wallet: Wallet
    resource: str
    amount: int
    paid: int
    credit_count: int
    state: str
    reason: str | None
    begun_at: UnixMs
    settled_at: UnixMs | None
    asset: Mint | None


class WalletRows(Protocol):
    """The wallets of users inside one transaction."""

    def of_user(self, user_id: UserId) -> Sequence[LinkedWallet]:
        """Return the wallets of a user, in the order in which they were linked."""

    def link(self, user_id: UserId, wallet: Wallet, at: UnixMs) -> None:
        """Link a wallet that is not linked to this user yet."""

    def unlink(self, user_id: UserId, wallet: Wallet) -> bool:
        """Unlink a wallet; say whether it was linked."""

    def payments(
        self, user_id: UserId, before: tuple[UnixMs, Signature] | None, limit: int
    ) -> Sequence[WalletPayment]:
        """Return up to *limit* payments of the linked wallets, newest first, behind *before*."""

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Link the wallets of *giver* to *taker* instead."""


def link_text(origin: str, user_id: UserId, username: str, wallet: Wallet) -> str:
    """Return what a wallet signs to be linked, but for the line that proves it to be ours."""
    return (
        f"{origin} wants you to sign in with your wallet to link it to an account, which can then"
        " read what the wallet has paid here. This costs nothing.\n"
        f"\nAccount: {username} ({user_id})\nWallet: {wallet}\n"
    )
