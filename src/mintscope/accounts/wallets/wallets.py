"""Ports of the wallets and credits of users.

Wallets of users: linked by a signature, and what they have paid for.

The credits of users inside one transaction: their accounts, and what is moved to and fro.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple, Protocol

from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet
from mintscope.kit.time import Month

WALLETS_MAX: Final = 20


class LinkDenied(Enum):
    """The reason why a wallet is not linked."""

    TOO_MANY = auto()


@dataclass(frozen=True, slots=True)
class LinkedWallet:
    """A wallet that has proven to be the user's."""

    wallet: Wallet
    linked_at: UnixMs


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletPayment:
    """A payment of a wallet, as its receipt shows it.

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
        """Unlink a wallet; return whether it was linked."""

    def payments(
        self, user_id: UserId, before: tuple[UnixMs, Signature] | None, limit: int
    ) -> Sequence[WalletPayment]:
        """Return up to *limit* payments of linked wallets, newest first, older than *before*."""

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Link the wallets of *giver* to *taker* instead."""


def link_text(origin: str, user_id: UserId, username: str, wallet: Wallet) -> str:
    """Return the text that a wallet signs to be linked, without the service's own proof."""
    return (
        f"{origin} wants you to sign in with your wallet to link it to an account, which can then"
        " read what the wallet has paid here. This costs nothing.\n"
        f"\nAccount: {username} ({user_id})\nWallet: {wallet}\n"
    )


class MoveKind(StrEnum):
    """The reason why credits are moved from one account to another."""

    DEPOSIT = "deposit"  # from a credit token into the account of a user
    WITHDRAWAL = "withdrawal"  # from there to a new credit token
    CLAIM = "claim"  # from an agent to the person who claims it


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditMove:
    """A move of *credit_count* credits from *off* to *onto*, with its Idempotency-Key's hash."""

    user_id: UserId
    kind: MoveKind
    off: CreditAccount
    onto: CreditAccount
    credit_count: int
    at: UnixMs
    key_hash: CredentialHash | None


class Overspent(NamedTuple):
    """An account that has spent *level* credits or more on *day*, UTC, since 1970-01-01."""

    user_id: UserId
    day: int
    spent: int
    level: int


class UsedLine(NamedTuple):
    """The use of an account on one day, UTC, since 1970-01-01, by one key of one endpoint.

    key_id     None: views and tests on pages
    endpoint   the number in `credits.endpoints`; 0: none is noted
    requests   that cost credits
    credits    less what was given back
    """

    day: int
    key_id: KeyId | None
    endpoint: int
    requests: int
    credits: int


class CreditRows(Protocol):
    """Credit accounts inside one transaction."""

    def find(self, user_id: UserId) -> CreditAccount | None:
        """Return the account of a user, None before it is first needed."""

    def open(self, user_id: UserId, at: UnixMs) -> CreditAccount:
        """Return the account of a user, created now if there is none."""

    def open_token(
        self, token_hash: CredentialHash, hint: str, root: CreditAccount, at: UnixMs
    ) -> CreditAccount:
        """Open the account of a credit token, whose requests count towards those of *root*."""

    def balance(self, account: CreditAccount) -> int:
        """Return the credits left."""

    def spent(self, user_id: UserId, month: Month) -> Mapping[KeyId, int]:
        """Return the credits that each key of the user spent in *month*; others are left out."""

    def is_paid_for(self, user_id: UserId) -> bool:
        """Return whether a payment for credits of the user is under way."""

    def fold_days(self, before: UnixMs, entries_max: int) -> bool:
        """Add up spends older than *before* by account and day, and other entries by account.

        Also add up spends of users by day, key and endpoint.  Return whether more is left.
        """


class SpendRows(Protocol):
    """Usage and spend alerts inside one transaction."""

    def usage(self, user_id: UserId, since: int, limit: int) -> Sequence[UsedLine]:
        """Return up to *limit* lines of the day *since* and later, newest first."""

    def forget_usage(self, before: int) -> None:
        """Delete what was used before the day *before*."""

    def spend_level(self, user_id: UserId) -> int | None:
        """Return the credits of a day at which the user is notified; None: at none."""

    def set_spend_level(self, user_id: UserId, level: int | None, told_day: int) -> None:
        """Notify the user at *level* credits of a day after *told_day*; None: not any more.

        A level that replaces another keeps the day of which the user was notified last.
        """

    def overspent(self, since: int, limit: int) -> Sequence[Overspent]:
        """Return up to *limit* accounts over their levels of which they were not notified yet.

        since   no earlier day is looked at
        """

    def note_overspent(self, user_id: UserId, day: int) -> None:
        """Note that the user was notified of *day*."""


class MoveRows(Protocol):
    """Moves of credits inside one transaction."""

    def find(self, key_hash: CredentialHash) -> CreditMove | None:
        """Return the move that was asked for with that Idempotency-Key."""

    def hold(self, off: CreditAccount, onto: CreditAccount) -> int:
        """Lock both balances for this transaction; return the credits of *off*."""

    def move(self, move: CreditMove) -> None:
        """Move the credits, which must exist; if no credits remain, move the purchases too."""

    def succeed(self, off: CreditAccount, onto: CreditAccount) -> None:
        """Pass later purchases for *off* to *onto*."""
