"""Where people and their sessions are kept; every verb that writes is one transaction.

Verbs of a session do nothing, and raise SessionEnded, if it was ended between the moment at which
it was looked up and the moment of writing: by then the account may be its owner's again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.people.session import NewSession, Session, SessionId
from mintscope.core.accounts.proof import Proof, ProofId
from mintscope.core.accounts.user import User, UserId


@dataclass(frozen=True, slots=True)
class Person:
    """A person and the hash of the password."""

    user: User
    password_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPerson:
    """What is kept of a person at first."""

    email: EmailAddress
    username: str
    password_hash: str


class PeopleStore(Protocol):
    """Where people are kept, and the proofs they were sent; with audit rows and letters."""

    async def find(self, email: EmailAddress) -> Person | None:
        """Return the person of that address."""
        ...

    async def add(self, person: NewPerson, session: NewSession, at: UnixMs) -> bool:
        """Keep the person and a first session; False if there is one with the address."""
        ...

    async def change_password(self, session: Session, password_hash: str, at: UnixMs) -> None:
        """Keep a new hash; end all other sessions and links to reset; write PASSWORD_CHANGED.

        Raises    SessionEnded
        """
        ...

    async def request_reset(self, email: EmailAddress, nonce: bytes, at: UnixMs) -> None:
        """Open a proof and write RESET_PASSWORD, if there is a person of *email*.

        After 20 letters in a day there is none as long as one has a link that is good for a while.
        As much is written if there is none, but no letter: the time tells nothing.
        """
        ...

    async def find_proof(self, proof_id: ProofId) -> Proof | None:
        """Return the proof, good or not."""
        ...

    async def reset(self, proof_id: ProofId, password_hash: str, at: UnixMs) -> bool:
        """Use the proof and keep a new hash; the mailbox is verified, all sessions end.

        If it was not verified before, all keys are revoked.  Writes PASSWORD_CHANGED.  False,
        and nothing is done, if the proof is used up, or its person is gone.
        """
        ...

    async def request_verification(self, session: Session, nonce: bytes, at: UnixMs) -> None:
        """Open a proof and write VERIFY_EMAIL, unless enough were written.  Raises SessionEnded."""
        ...

    async def verify(self, session: Session, proof_id: ProofId, at: UnixMs) -> bool:
        """Use the proof: the mailbox is verified.  False if it is used up.

        Raises    SessionEnded
        """
        ...

    async def agents(self, email: EmailAddress) -> Sequence[User]:
        """Return the agents with that address."""
        ...

    async def request_claim(
        self, session: Session, agent: UserId, nonce: bytes, at: UnixMs
    ) -> None:
        """Open a proof and write CLAIM_AGENT, if there is such an agent.  Raises SessionEnded."""
        ...

    async def claim(self, session: Session, proof_id: ProofId, at: UnixMs) -> User | None:
        """Use the proof and give the person all the agent has; the agent's account ends.

        Return that agent, or None if the proof is used up, or either mailbox is another.
        Raises    SessionEnded
        """
        ...


class SessionStore(Protocol):
    """Where sessions are kept."""

    async def open(self, person: Person, session: NewSession, at: UnixMs) -> bool:
        """Keep a session; False if the password is not any more what *person* says."""
        ...

    async def find(self, cookie_hash: CredentialHash) -> Session | None:
        """Return the session, expired or not; without the text of its forms."""
        ...

    async def note_use(self, session_id: SessionId, at: UnixMs) -> None:
        """Note that it was used."""
        ...

    async def prove(self, session: Session, person: Person, at: UnixMs) -> None:
        """Note that the password *person* has was entered.

        Raises    SessionEnded, also if the password is another by now
        """
        ...

    async def of_user(self, user_id: UserId) -> Sequence[Session]:
        """Return the user's sessions, expired or not, newest use first."""
        ...

    async def end(self, user_id: UserId, session_id: SessionId) -> bool:
        """End a session of the user; False if there is none."""
        ...

    async def end_others(self, session: Session) -> int:
        """End all sessions of the user but this; return how many."""
        ...
