"""Records of the wallets and credits of users."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import CreditAccount, Mint, Signature, UnixMs, Wallet

WALLETS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class LinkedWallet:
    """A wallet that a user has proven to own, and the time when it was linked."""

    wallet: Wallet
    linked_at: UnixMs


@dataclass(frozen=True, slots=True)
class WalletPayment:
    """A payment by a linked wallet.

    resource      the paid resource
    amount        the requested amount, in atoms of *asset*
    paid          the amount that arrived, in atoms; 0 before it has arrived
    credit_count  the credits that the payment bought; 0: it paid for a single request
    state         pending, issued, failed or frozen
    reason        why the payment failed or is frozen; None: neither
    settled_at    time of the last change of the state; None: the payment is pending
    asset         the mint of the paid token; None: the payment began before several tokens were
                  accepted
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
    """Return the text with which a wallet agrees to be linked, without its last line.

    The last line has the expiry of the text and a nonce.
    """
    return (
        f"{origin} wants you to sign in with your wallet to link it to an account, which can then"
        " read what the wallet has paid here. This costs nothing.\n"
        f"\nAccount: {username} ({user_id})\nWallet: {wallet}\n"
    )


class MoveKind(StrEnum):
    """A reason why credits are moved from one account to another."""

    DEPOSIT = "deposit"  # from a credit token into the account of a user
    WITHDRAWAL = "withdrawal"  # from the account of a user to a new credit token
    CLAIM = "claim"  # from an agent to the person who claims it


@dataclass(frozen=True, slots=True)
class CreditMove:
    """A move of *credit_count* credits from the account *off* to the account *onto*.

    user_id    the user who requested the move, or who took over the account of an agent
    key_hash   the hash of the request's Idempotency-Key; None: the request had none
    """

    user_id: UserId
    kind: MoveKind
    off: CreditAccount
    onto: CreditAccount
    credit_count: int
    at: UnixMs
    key_hash: CredentialHash | None


class Overspent(NamedTuple):
    """A user who has spent *level* credits or more on *day*, in UTC days since 1970-01-01."""

    user_id: UserId
    day: int
    spent: int
    level: int


class UsedLine(NamedTuple):
    """The requests of an account to one endpoint, with one API key, on one day.

    day        UTC days since 1970-01-01
    key_id     the API key; None: no key was used, such as for views and backtests on pages
    endpoint   the number of the endpoint in `credits.ledger.NUMBERS`; 0: none, or unknown
    requests   the number of requests that cost credits
    credits    the cost of these requests, less refunds
    """

    day: int
    key_id: KeyId | None
    endpoint: int
    requests: int
    credits: int
