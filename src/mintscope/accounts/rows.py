"""The interface of the account store, and the tables that a transaction reads and writes."""

import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol, TypeVar

from mintscope.accounts import store as tables
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.factor_rows import KeptUser, User, UserKind
from mintscope.accounts.keys.store import SqlApiKeyRows, SqlKeyAddressRows
from mintscope.accounts.mail.store import SqlEmailRows, SqlProofRows
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import EmailProof, ProofId, Purpose, UserRemoved, parse_link
from mintscope.accounts.signups.application import Application, SignupId, subject_of
from mintscope.accounts.signups.store import SqlApplicationRows
from mintscope.accounts.wallets.store import SqlCreditRows, SqlMoveRows, SqlWalletRows
from mintscope.alerts import store as alerts
from mintscope.kit.audit import KeyId, UserId
from mintscope.kit.clock import Clock
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database
from mintscope.payments.store.books import SqlHourRows
from mintscope.watchlists.store import SqlWatchlistRows


def asked_for(kind: str, body: object) -> bytes:
    """Return a digest of a request that creates something, to recognise its repetition.

    kind   kind of record to create
    body   the request; its `repr` must contain every value
    """
    return sha256(f"{kind}\n{body!r}".encode()).digest()


T = TypeVar("T")

NO_HASH: Final = CredentialHash(bytes(32))  # compared if there is no application


class AccountRows:
    """Reads and writes all tables of accounts in *db*, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self.users = tables.SqlUserRows(db)
        self.applications = SqlApplicationRows(db)
        self.api_keys = SqlApiKeyRows(db)
        self.key_addresses = SqlKeyAddressRows(db)
        self.sessions = tables.SqlSessionRows(db)
        self.proofs = SqlProofRows(db)
        self.apps = tables.SqlAppRows(db)
        self.recovery_codes = tables.SqlRecoveryRows(db)
        self.passkeys = tables.SqlPasskeyRows(db)
        self.sign_ins = tables.SqlSignInRows(db)
        self.emails = SqlEmailRows(db)
        self.events = tables.SqlEventRows(db)
        self.hours = SqlHourRows(db)
        self.credits = SqlCreditRows(db)
        self.moves = SqlMoveRows(db)
        self.wallets = SqlWalletRows(db)
        self.watchlists = SqlWatchlistRows(db)
        self.made = tables.SqlIdempotencyRows(db)
        self.signals = alerts.SqlAlertRows(db)
        self.firings = alerts.SqlFiringRows(db)
        self.chats = alerts.SqlTelegramChatRows(db)
        self.lease = alerts.SqlLeaseRows(db)


class AccountStore(Protocol):
    """The store of accounts.

    The due times of e-mails and webhooks, and the end of the evaluator's lease, are stored as times
    of one shared clock; methods of AccountRows take and return times of the process's clock.  Every
    method of the store raises ServiceUnavailable if the database fails.
    """

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Run *work* in a transaction; return its result once the changes are durable.

        No other `transact` runs at the same time, in any process.  If *work* raises an error, its
        changes are undone, and this method raises the error.  *work* may only compute and call
        methods of its AccountRows, because an engine may run it again or in another thread.
        """

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Run *work* in a transaction in parallel with others.

        Return its result once it is durable.  *work* may change only rows that it has locked.
        """

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Run *work*, which must only read, on one consistent snapshot; return its result."""


@dataclass(kw_only=True, eq=False, repr=False)
class AccountService:
    """The base of account services; *entropy* returns a given number of random bytes."""

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    entropy: Callable[[int], bytes]

    async def recognise(self, email: EmailAddress, secret: str) -> Application | None:
        """Return the application of *email*; None if there is none, or if *secret* is wrong.

        All cases take the same time.
        """
        # The same steps in each case: one hash, one read and one comparison.
        digest = self.secrets.hash(secret)
        kept = await self.store.read(lambda rows: rows.applications.find(email))
        is_right = hmac.compare_digest(digest, NO_HASH if kept is None else kept.secret_hash)
        return kept.application if kept is not None and is_right else None

    async def find_proof(self, text: str, purpose: Purpose) -> EmailProof | None:
        """Return the database row of the link that ends with *text*.

        Return None if the link is invalid, was used, has expired, or is not for *purpose*.
        """
        parsed = parse_link(text)
        if parsed is None:
            return None
        proof_id, link = parsed
        proof = await self.store.read(lambda rows: rows.proofs.get(proof_id))
        if proof is None or not proof.is_good(purpose, self.clock.now()):
            return None
        return proof if self.secrets.is_link_of(proof.nonce, link) else None

    async def find_address(self, text: str, purpose: Purpose) -> EmailAddress | None:
        """Return the e-mail address to which the link that ends with *text* was sent.

        Return None if the link is invalid, was used, has expired, or is not for *purpose*.
        """
        proof = await self.find_proof(text, purpose)
        return None if proof is None else proof.email


def find_person(users: tables.SqlUserRows, email: EmailAddress) -> KeptUser | None:
    """Return the person with the address *email*; None if there is none."""
    return next(iter(users.of_email(email, UserKind.PERSON)), None)


def expect_user(rows: AccountRows, user_id: UserId) -> User:
    """Return a user, read in this transaction.

    Raises    UserRemoved if the user was removed after the request was admitted
    """
    kept = rows.users.get(user_id)
    if kept is None:
        raise UserRemoved
    return kept.user


def use_proof(
    proofs: SqlProofRows, proof_id: ProofId, purpose: Purpose, at: UnixMs
) -> EmailProof | None:
    """Mark the link or code *proof_id* as used, and return it.

    Return None if it is no longer valid for *purpose*.
    """
    proof = proofs.get(proof_id)
    if proof is None or not proof.is_good(purpose, at):
        return None
    proofs.update(proof_id, used_at=at)
    return proof


NUMBER_DIGITS_MAX: Final = 18


def names_of(rows: AccountRows, subjects: Collection[str]) -> Mapping[str, str]:
    """Return the display names of audit-log subjects such as `user:7`; omit those without a name.

    The name of a user or an application is its e-mail address; that of a key is the name that its
    owner gave to it, with its last characters.
    """
    named = {subject: _name_of(rows, subject) for subject in set(subjects)}
    return {subject: name for subject, name in named.items() if name}


def named_by(rows: AccountRows, email: EmailAddress) -> str | None:
    """Return the audit-log name of the person with *email*.

    If there is no such person, return the name of the application with *email*; None if there is
    no such application either.
    """
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
