"""Where accounts are kept: every rule runs inside one transaction, over the rows of an engine."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import Application, ApplicationRows
from mintscope.core.accounts.audit import EventRows
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.factors.rows import AppRows, PasskeyRows, RecoveryRows, SignInRows
from mintscope.core.accounts.holdings.credit_rows import CreditRows, MoveRows
from mintscope.core.accounts.holdings.made import MadeRows
from mintscope.core.accounts.holdings.wallets import WalletRows
from mintscope.core.accounts.holdings.watchlists import WatchedRows, WatchlistRows
from mintscope.core.accounts.hours import HourRows
from mintscope.core.accounts.keys.api_key import ApiKeyRows, KeyAddressRows, UserKeyRows
from mintscope.core.accounts.mail.email import EmailRows, OutboxRows
from mintscope.core.accounts.people.session import SessionRows
from mintscope.core.accounts.proof import EmailProof, ProofRows, Purpose, parse_link
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signals.signal import (
    ActiveRows,
    AlertEmailRows,
    FiredRows,
    FiringRows,
    SignalRows,
)
from mintscope.core.accounts.signals.turn import TurnRows
from mintscope.core.accounts.user import NameRows, UserRows

T = TypeVar("T")

NO_HASH: Final = CredentialHash(bytes(32))  # compared with where there is no application


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRows:
    """Every table of accounts, inside one transaction."""

    users: UserRows
    names: NameRows
    applications: ApplicationRows
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
    moves: MoveRows
    wallets: WalletRows
    watchlists: WatchlistRows
    watched: WatchedRows
    made: MadeRows
    signals: SignalRows
    active: ActiveRows
    firings: FiringRows
    fired: FiredRows
    told: AlertEmailRows
    turn: TurnRows


class AccountStore(Protocol):
    """Where accounts are kept.

    Leases and due times are given by the clock of the process that asks, and
    kept by one clock for all processes.
    Raises ServiceUnavailable from every verb, nothing being done.
    """

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, once what it changed is durable.

        It runs as if no other transaction ran at the same time, in any process.  An error that it
        raises undoes all that it did, and is raised here.  It does nothing but compute and call row
        verbs, because an engine may run it again from its start, and in another thread.
        """

    async def claim(self, work: Callable[[AccountRows], T]) -> T:
        """Transact beside other transactions: *work* changes only rows that it has claimed."""

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, which changes nothing; it sees one commit throughout."""


async def find_application(
    store: AccountStore, email: EmailAddress, secret: str, secrets: AccountSecrets
) -> Application | None:
    """Return the application of *email* if *secret* is its own; it takes as long if not."""
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
