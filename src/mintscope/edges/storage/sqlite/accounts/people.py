"""PeopleStore on SQLite."""

from collections.abc import Sequence
from typing import Final

import apsw

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import Event, user_actor
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.people.session import NewSession, Session
from mintscope.core.accounts.people.store import NewPerson, Person
from mintscope.core.accounts.proof import Proof, ProofId, Purpose
from mintscope.core.accounts.user import User, UserId
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.rows.api_keys import revoke_keys
from mintscope.edges.storage.sqlite.accounts.rows.emails import (
    may_write,
    may_write_reset,
    tell_owner,
    write_letter,
)
from mintscope.edges.storage.sqlite.accounts.rows.events import note
from mintscope.edges.storage.sqlite.accounts.rows.proofs import (
    end_proofs,
    find_proof,
    open_proof,
    use_proof,
)
from mintscope.edges.storage.sqlite.accounts.rows.sessions import (
    USER_COLUMNS,
    expect_session,
    user_of,
)
from mintscope.edges.storage.sqlite.accounts.sessions import END_OTHERS, open_session

NOBODY: Final = 0

FIND: Final = f"""
SELECT {USER_COLUMNS}, password_hash FROM user
 WHERE email = ? AND kind = 'person' AND removed_at IS NULL
"""  # noqa: S608  a constant

FIND_BY_ID: Final = f"""
SELECT {USER_COLUMNS}, password_hash FROM user
 WHERE id = ? AND kind = 'person' AND removed_at IS NULL
"""  # noqa: S608  a constant

AGENTS: Final = f"""
SELECT {USER_COLUMNS} FROM user
 WHERE email = ? AND kind = 'agent' AND removed_at IS NULL AND verified_at IS NOT NULL
 ORDER BY id DESC
"""  # noqa: S608  a constant

ADD: Final = """
INSERT INTO user (kind, username, email, password_hash, created_at)
VALUES ('person', ?, ?, ?, ?) RETURNING id
"""

SET_PASSWORD: Final = "UPDATE user SET password_hash = ?2 WHERE id = ?1"  # noqa: S105  a statement
VERIFY: Final = "UPDATE user SET verified_at = ?2 WHERE id = ?1"
END_SESSIONS: Final = "DELETE FROM session WHERE user = ?"

MOVE_KEYS: Final = "UPDATE api_key SET user = ?2 WHERE user = ?1"
MOVE_APPLICATIONS: Final = "UPDATE application SET user = ?2 WHERE user = ?1"
REMOVE: Final = "UPDATE user SET removed_at = ?2 WHERE id = ?1"


class SqlitePeopleStore:
    """Implements PeopleStore of `accounts.people_store`."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def find(self, email: EmailAddress) -> Person | None:
        """Return the person of that address."""
        return self._file.read(lambda db: _find(db, email))

    async def add(self, person: NewPerson, session: NewSession, at: UnixMs) -> bool:
        """Keep the person and a first session; False if there is one with the address."""

        def add(db: apsw.Connection) -> bool:
            if _find(db, person.email) is not None:
                return False
            db.execute(ADD, (person.username, person.email, person.password_hash, at)).fetchall()
            added = _find(db, person.email)
            assert added is not None, "it was added just now"
            open_session(db, added, session, at)
            _note(db, added.user, "signed up", at)
            return True

        return await self._file.write(add)

    async def change_password(self, session: Session, password_hash: str, at: UnixMs) -> None:
        """Keep a new hash; end all other sessions and links to reset; write PASSWORD_CHANGED."""

        def change(db: apsw.Connection) -> None:
            expect_session(db, session)
            _set_password(db, session.user, password_hash, at)
            db.execute(END_OTHERS, (session.user.user_id, session.session_id))
            _note(db, session.user, "changed password", at)

        await self._file.write(change)

    async def request_reset(self, email: EmailAddress, nonce: bytes, at: UnixMs) -> None:
        """Open a proof and write RESET_PASSWORD, if there is a person of *email*."""

        def request(db: apsw.Connection) -> None:
            person = _find(db, email)
            subject = NOBODY if person is None else person.user.user_id
            proof_id = open_proof(db, Purpose.RESET_PASSWORD, subject, email, nonce, at)
            if person is not None and may_write_reset(db, email, at):
                write_letter(db, EmailKind.RESET_PASSWORD, email, {}, proof_id, at)

        await self._file.write(request)

    async def find_proof(self, proof_id: ProofId) -> Proof | None:
        """Return the proof, good or not."""
        return self._file.read(lambda db: find_proof(db, proof_id))

    async def reset(self, proof_id: ProofId, password_hash: str, at: UnixMs) -> bool:
        """Use the proof and keep a new hash; the mailbox is verified, all sessions end."""

        def reset(db: apsw.Connection) -> bool:
            proof = find_proof(db, proof_id)
            if proof is None or not use_proof(db, proof_id, Purpose.RESET_PASSWORD, at):
                return False
            person = _find_by_id(db, proof.subject)
            if person is None or person.user.email != proof.email:
                return False
            user_id = person.user.user_id
            db.execute(END_SESSIONS, (user_id,))
            revoked = 0
            if person.user.verified_at is None:  # until now it may have been anybody's
                revoked = revoke_keys(db, user_id, at)
                end_proofs(db, Purpose.VERIFY_EMAIL, user_id, at)
            db.execute(VERIFY, (user_id, at))
            _set_password(db, person.user, password_hash, at)
            _note(db, person.user, "reset password", at, keys_revoked=str(revoked))
            return True

        return await self._file.write(reset)

    async def request_verification(self, session: Session, nonce: bytes, at: UnixMs) -> None:
        """Open a proof and write VERIFY_EMAIL."""

        def request(db: apsw.Connection) -> None:
            expect_session(db, session)
            user = session.user
            if not may_write(db, user, EmailKind.VERIFY_EMAIL, at):
                return
            proof_id = open_proof(db, Purpose.VERIFY_EMAIL, user.user_id, user.email, nonce, at)
            write_letter(db, EmailKind.VERIFY_EMAIL, user.email, {}, proof_id, at)

        await self._file.write(request)

    async def verify(self, session: Session, proof_id: ProofId, at: UnixMs) -> bool:
        """Use the proof: the mailbox is verified.  False if it is used up."""

        def verify(db: apsw.Connection) -> bool:
            expect_session(db, session)
            if not use_proof(db, proof_id, Purpose.VERIFY_EMAIL, at):
                return False
            end_proofs(db, Purpose.VERIFY_EMAIL, session.user.user_id, at)
            db.execute(VERIFY, (session.user.user_id, at))
            _note(db, session.user, "verified mailbox", at)
            return True

        return await self._file.write(verify)

    async def agents(self, email: EmailAddress) -> Sequence[User]:
        """Return the agents with that address."""
        rows = self._file.read(lambda db: db.execute(AGENTS, (email,)).fetchall())
        return [user_of(row) for row in rows]

    async def request_claim(
        self, session: Session, agent: UserId, nonce: bytes, at: UnixMs
    ) -> None:
        """Open a proof and write CLAIM_AGENT, if there is such an agent."""

        def request(db: apsw.Connection) -> None:
            expect_session(db, session)
            found = _find_agent(db, session, agent)
            if found is not None:
                proof_id = open_proof(db, Purpose.CLAIM_AGENT, agent, found.email, nonce, at)
                facts = {"username": found.username}
                write_letter(db, EmailKind.CLAIM_AGENT, found.email, facts, proof_id, at)

        await self._file.write(request)

    async def claim(self, session: Session, proof_id: ProofId, at: UnixMs) -> User | None:
        """Use the proof and give the person all the agent has; the agent's account ends."""

        def claim(db: apsw.Connection) -> User | None:
            expect_session(db, session)
            proof = find_proof(db, proof_id)
            agent = None if proof is None else _find_agent(db, session, UserId(proof.subject))
            if agent is None or not use_proof(db, proof_id, Purpose.CLAIM_AGENT, at):
                return None
            person_id = session.user.user_id
            db.execute(MOVE_KEYS, (agent.user_id, person_id))
            db.execute(MOVE_APPLICATIONS, (agent.user_id, person_id))
            db.execute(REMOVE, (agent.user_id, at))
            _note(db, session.user, "claimed agent", at, agent=f"user:{agent.user_id}")
            return agent

        return await self._file.write(claim)


def _find(db: apsw.Connection, email: EmailAddress) -> Person | None:
    row = db.execute(FIND, (email,)).fetchone()
    return None if row is None else Person(user_of(row[:-1]), str(row[-1]))


def _find_by_id(db: apsw.Connection, user_id: int) -> Person | None:
    row = db.execute(FIND_BY_ID, (user_id,)).fetchone()
    return None if row is None else Person(user_of(row[:-1]), str(row[-1]))


def _find_agent(db: apsw.Connection, session: Session, agent: UserId) -> User | None:
    """Return the agent if the person of *session* has verified that very mailbox."""
    owner = _find_by_id(db, session.user.user_id)
    if owner is None or owner.user.verified_at is None:
        return None
    rows = db.execute(AGENTS, (owner.user.email,)).fetchall()
    return next((user for user in map(user_of, rows) if user.user_id == agent), None)


def _set_password(db: apsw.Connection, user: User, password_hash: str, at: UnixMs) -> None:
    """Keep the hash, end the links that would set another, and tell the owner."""
    db.execute(SET_PASSWORD, (user.user_id, password_hash))
    end_proofs(db, Purpose.RESET_PASSWORD, user.user_id, at)
    tell_owner(db, user, EmailKind.PASSWORD_CHANGED, {}, at)


def _note(db: apsw.Connection, user: User, action: str, at: UnixMs, **detail: str) -> None:
    actor, subject = user_actor(user.user_id), f"user:{user.user_id}"
    note(db, Event(at=at, actor=actor, action=action, subject=subject, detail=detail))
