"""Where accounts are kept: one port, every rule runs inside one transaction of it.

The rules are functions over AccountRows in the core; an engine implements the row verbs and the
two ways to run a function, and decides nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import ApplicationLists, ApplicationRows
from mintscope.core.accounts.audit import EventRows
from mintscope.core.accounts.keys.api_key import ApiKeyRows, UserKeyRows
from mintscope.core.accounts.mail.email import EmailRows, OutboxRows
from mintscope.core.accounts.people.session import SessionRows
from mintscope.core.accounts.proof import Proof, ProofRows, Purpose, parse_link
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.user import UserRows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRows:
    """Every table of accounts, inside one transaction."""

    users: UserRows
    applications: ApplicationRows
    application_lists: ApplicationLists
    api_keys: ApiKeyRows
    user_keys: UserKeyRows
    sessions: SessionRows
    proofs: ProofRows
    emails: EmailRows
    outbox: OutboxRows
    events: EventRows


class AccountStore(Protocol):
    """Where accounts are kept.  Raises ServiceUnavailable from every verb, nothing being done."""

    async def transact(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, once what it changed is durable.

        It runs as if no other transaction ran at the same time, in any process.  What it raises
        undoes all that it did, and is raised here.  It does nothing but compute and call row
        verbs, because an engine may run it again from its start, and in another thread.
        """

    async def read(self, work: Callable[[AccountRows], T]) -> T:
        """Return what *work* returns, which changes nothing; it sees one commit throughout."""


async def find_proof(
    store: AccountStore, text: str, purpose: Purpose, secrets: AccountSecrets, now: UnixMs
) -> Proof | None:
    """Return the proof of a link's last segment *text* if it is good for *purpose* at *now*."""
    parsed = parse_link(text)
    if parsed is None:
        return None
    proof_id, link = parsed
    proof = await store.read(lambda rows: rows.proofs.get(proof_id))
    if proof is None or not proof.is_good(purpose, now):
        return None
    return proof if secrets.is_link_of(proof.nonce, link) else None
