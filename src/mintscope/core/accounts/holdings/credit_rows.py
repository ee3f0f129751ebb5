"""The credits of users inside one transaction: their accounts, and what is moved to and fro."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import CreditAccount, UnixMs
from mintscope.base.time import Month
from mintscope.core.accounts.keys.api_key import KeyId
from mintscope.core.accounts.user import UserId


class MoveKind(StrEnum):
    """Why credits are moved from one account to another."""

    DEPOSIT = "deposit"  # from a credit token into the account of a user
    WITHDRAWAL = "withdrawal"  # from there to a new credit token
    CLAIM = "claim"  # from an agent to the person who claims it


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditMove:
    """*credit_count* credits, >= 1, from *off* to *onto*; *key_hash* is of the Idempotency-Key."""

    user_id: UserId
    kind: MoveKind
    off: CreditAccount
    onto: CreditAccount
    credit_count: int
    at: UnixMs
    key_hash: CredentialHash | None


class CreditRows(Protocol):
    """The accounts of credits inside one transaction."""

    def find(self, user_id: UserId) -> CreditAccount | None:
        """Return the account of a user, None before it is first needed."""

    def open(self, user_id: UserId, at: UnixMs) -> CreditAccount:
        """Return the account of a user, made now if there is none."""

    def open_token(
        self, token_hash: CredentialHash, hint: str, root: CreditAccount, at: UnixMs
    ) -> CreditAccount:
        """Open the account of a credit token, whose requests count with those of *root*."""

    def balance(self, account: CreditAccount) -> int:
        """Return the credits left."""

    def spent(self, user_id: UserId, month: Month) -> Mapping[KeyId, int]:
        """Return what each key of the user has spent in *month*; others are left out."""

    def is_paid_for(self, user_id: UserId) -> bool:
        """Say whether a payment for credits of the user is under way."""

    def fold_days(self, before: UnixMs, entries_max: int) -> bool:
        """Add up the spends *before* by account and day, and other entries by account.

        Return whether more is left to add up.
        """


class MoveRows(Protocol):
    """Moves of credits inside one transaction."""

    def find(self, key_hash: CredentialHash) -> CreditMove | None:
        """Return the move that was asked for with that Idempotency-Key."""

    def hold(self, off: CreditAccount, onto: CreditAccount) -> int:
        """Let no other transaction change either balance; return the credits of *off*."""

    def move(self, move: CreditMove) -> None:
        """Move the credits, which are there; all of them with the purchases that brought them."""

    def succeed(self, off: CreditAccount, onto: CreditAccount) -> None:
        """Let what is still bought for *off* go to *onto*."""
