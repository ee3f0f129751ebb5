"""Ports of the account store: all rows of one transaction.

Where accounts are kept: every rule runs inside one transaction, over the rows of an engine.

Results of requests with an Idempotency-Key: a repeated request makes nothing again.

Names for the numbers of the audit log: addresses, names of users and of keys.
"""

import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol, TypeVar

from mintscope.accounts.keys.key import ApiKeyRows, KeyAddressRows, UserKeyRows
from mintscope.accounts.mail.email import EmailRows, OutboxRows
from mintscope.accounts.people.email_address import EmailAddress
from mintscope.accounts.people.factor_rows import (
    AppRows,
    NameRows,
    PasskeyRows,
    RecoveryRows,
    SignInRows,
    UserRows,
    find_person,
)
from mintscope.accounts.people.secrets import AccountSecrets
from mintscope.accounts.people.session import (
    EmailProof,
    ProofRows,
    Purpose,
    SessionRows,
    parse_link,
)
from mintscope.accounts.signups.application import (
    Application,
    ApplicationRows,
    DecisionRows,
    SignupId,
    subject_of,
)
from mintscope.accounts.wallets.wallets import CreditRows, MoveRows, SpendRows, WalletRows
from mintscope.alerts.alert import (
    ActiveRows,
    AlertEmailRows,
    AlertRows,
    FiredRows,
    FiringRows,
    LeaseRows,
    TelegramChatRows,
    TelegramRows,
)
from mintscope.kit.audit import EventRows, HourRows, KeyId, UserId
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import UnixMs
from mintscope.watchlists.rows import WatchedRows, WatchlistRows


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """The result of a request.

    asked     names the request: what it made and of what
    thing_id  the number of what was made
    """

    asked: bytes
    thing_id: int


class IdempotencyRows(Protocol):
    """Results by their keys, inside one transaction."""

    def find(self, key_hash: CredentialHash) -> IdempotencyRecord | None:
        """Return the record of an earlier request with that Idempotency-Key."""

    def insert(self, key_hash: CredentialHash, made: IdempotencyRecord, at: UnixMs) -> None:
        """Store the record of a request with that Idempotency-Key."""

    def purge(self, before: UnixMs) -> None:
        """Delete the records of requests before then."""


def asked_for(kind: str, body: object) -> bytes:
    """Return a digest of a request for a *kind* of thing; `repr(body)` must be complete."""
    return sha256(f"{kind}\n{body!r}".encode()).digest()


T = TypeVar("T")

NO_HASH: Final = CredentialHash(bytes(32))  # compared with where there is no application


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRows:
    """Every table of accounts, inside one transaction."""

    users: UserRows
    names: NameRows
    applications: ApplicationRows
    decisions: DecisionRows
    api_keys: ApiKeyRows
    user_keys: UserKeyRows
    key_addresses: KeyAddressRows
    sessions: SessionRows
    proofs: ProofRows
    apps: AppRows
    recovery_codes: RecoveryRows
    passkeys: PasskeyRows
    sign_ins: SignInRows
    emails: EmailRows
    outbox: OutboxRows
    events: EventRows
    hours: HourRows
    credits: CreditRows
    spending: SpendRows
    moves: MoveRows
    wallets: WalletRows
    watchlists: WatchlistRows
    watched: WatchedRows
    made: IdempotencyRows
    signals: AlertRows
    active: ActiveRows
    firings: FiringRows
    fired: FiredRows
    told: AlertEmailRows
    chats: TelegramChatRows
    telegram: TelegramRows
    turn: LeaseRows


class AccountStore(Protocol):
    """The store of accounts.

    Leases and due times are given by the clock of the process that asks, and
    kept by one clock for all processes.
    Raises ServiceUnavailable from every verb, nothing being done.
    """

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, once its changes are durable.

        It runs as if no other transaction ran at the same time, in any process.  An error that it
        raises undoes all that it did, and is raised here.  It does nothing but compute and call row
        verbs, because an engine may run it again from its start, and in another thread.
        """

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Transact while others do; *work* must change only rows that it has claimed."""

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return the result of *work*, which only reads, from one consistent snapshot."""


async def find_application(
    store: AccountStore, email: EmailAddress, secret: str, secrets: AccountSecrets
) -> Application | None:
    """Return the application of *email* if *secret* is right; a wrong one takes as long."""
    digest = secrets.hash(secret)
    kept = await store.read(lambda rows: rows.applications.find(email))
    is_right = hmac.compare_digest(digest, NO_HASH if kept is None else kept.secret_hash)
    return kept.application if kept is not None and is_right else None


async def find_proof(
    store: AccountStore, text: str, purpose: Purpose, secrets: AccountSecrets, now: UnixMs
) -> EmailProof | None:
    """Return the proof of a link's last segment *text* if it is good for *purpose* at *now*."""
    parsed = parse_link(text)
    if parsed is None:
        return None
    proof_id, link = parsed
    proof = await store.read(lambda rows: rows.proofs.get(proof_id))
    if proof is None or not proof.is_good(purpose, now):
        return None
    return proof if secrets.is_link_of(proof.nonce, link) else None


NUMBER_DIGITS_MAX: Final = 18


def names_of(rows: AccountRows, subjects: Collection[str]) -> Mapping[str, str]:
    """Return the names of *subjects* such as `user:7`, except those without a name."""
    named = {subject: _name_of(rows, subject) for subject in set(subjects)}
    return {subject: name for subject, name in named.items() if name}


def named_by(rows: AccountRows, email: EmailAddress) -> str | None:
    """Return the audit-log name of the person of *email*, or else of its application."""
    person = find_person(rows.users, email)
    if person is not None:
        return f"user:{person.user.user_id}"
    kept = rows.applications.find(email)
    return None if kept is None else subject_of(kept.application.signup_id)


def _name_of(rows: AccountRows, subject: str) -> str:
    kind, _, number = subject.partition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= NUMBER_DIGITS_MAX):
        return ""
    match kind:
        case "user":
            user = rows.users.get(UserId(int(number)))
            return "" if user is None else user.user.email
        case "application":
            application = rows.applications.get(SignupId(int(number)))
            return "" if application is None else application.application.form.email
        case "key":
            key = rows.api_keys.get(KeyId(int(number)))
            return "" if key is None else f"{key.name} ({key.hint})"
        case _:
            return ""
