"""Records of the wallets and credits of users."""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple

from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet

WALLETS_MAX: Final = 20


class LinkDenied(Enum):
    """The reason why a wallet is not linked."""

    TOO_MANY = auto()


@dataclass(frozen=True, slots=True)
class LinkedWallet:
    """A wallet that is proven to be the user's."""

    wallet: Wallet
    linked_at: UnixMs


@dataclass(frozen=True, slots=True)
class WalletPayment:
    """A payment by a linked wallet.

    resource      the paid resource
    amount        atoms that were requested
    paid          atoms that arrived; 0 until they have
    credit_count  credits that it bought; 0 for a single request
    state         pending, issued, failed or frozen
    reason        why the payment failed or is frozen
    settled_at    the last change of its state; None: pending
    asset         the token of its atoms; None: begun before several tokens were accepted
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
    """A move of *credit_count* credits from *off* to *onto*; its Idempotency-Key is hashed."""

    user_id: UserId
    kind: MoveKind
    off: CreditAccount
    onto: CreditAccount
    credit_count: int
    at: UnixMs
    key_hash: CredentialHash | None


class Overspent(NamedTuple):
    """An account that has spent *level* credits or more on *day*, UTC days since 1970-01-01."""

    user_id: UserId
    day: int
    spent: int
    level: int


class UsedLine(NamedTuple):
    """The requests of an account to one endpoint, with one API key, on one day.

    day        UTC days since 1970-01-01
    key_id     None: views of pages and tests of alerts
    endpoint   the number in `credits.endpoints`; 0: unknown
    requests   number of requests that cost credits
    credits    their cost, less refunds
    """

    day: int
    key_id: KeyId | None
    endpoint: int
    requests: int
    credits: int
