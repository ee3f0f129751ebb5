"""UserRows and SessionRows."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.people.session import NewSession, Session, SessionId
from mintscope.core.accounts.user import KeptUser, NewUser, User, UserId, UserKind
from mintscope.edges.storage.sql.accounts.table import NO_END, Columns, Table

HAS_SECOND_FACTOR: Final = """(
    EXISTS (SELECT 1 FROM authenticator_app
             WHERE authenticator_app."user" = "user".id AND confirmed_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM passkey WHERE passkey."user" = "user".id))"""
USER: Final = Columns(
    User,
    "user",
    user_id='"user".id',
    is_administrator="administrator",
    has_second_factor=HAS_SECOND_FACTOR,
)


class SqlUserRows(Table[UserId, KeptUser]):
    """Implements UserRows and NameRows."""

    NAME = "user"
    COLUMNS = Columns(KeptUser, "user", user=USER)
    SOURCE = '"user" WHERE removed_at IS NULL AND'

    def of_email(self, email: EmailAddress, kind: UserKind) -> Sequence[KeptUser]:
        """Return the users of *kind* with that address, newest first."""
        # The kind stands in the text, so that the index of its kind serves.
        return self._all(f"kind = '{kind}' AND email = ? ORDER BY id DESC", email)

    def newest(self, before: UserId | None, limit: int) -> Sequence[User]:
        """Return up to *limit* users, newest first, that are older than *before*."""
        condition = f"id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?"
        return [kept.user for kept in self._all(condition, before, limit)]

    def administrators(self) -> Sequence[UserId]:
        """Return every administrator."""
        return [kept.user.user_id for kept in self._all("administrator = 1")]

    def is_taken(self, username: str) -> bool:
        """Say whether an account has that name, or had it when it was removed."""
        taken = 'SELECT count(*) FROM "user" WHERE username = ?'
        return bool(self._db.execute(taken, (username,)).get)

    def insert(self, new: NewUser) -> UserId:
        """Add a user."""
        return self._add(asdict(new))

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Give every key and every application of *giver* to *taker*."""
        for table in ("api_key", "application"):
            statement = f'UPDATE {table} SET "user" = ?2 WHERE "user" = ?1'  # noqa: S608  a constant
            self._db.execute(statement, (giver, taker))


class SqlSessionRows(Table[SessionId, Session]):
    """Implements SessionRows."""

    NAME = "session"
    COLUMNS = Columns(Session, "session", session_id="session.id", user=USER, csrf="''")
    SOURCE = 'session JOIN "user" ON "user".id = session."user" WHERE removed_at IS NULL AND'

    def find(self, cookie_hash: CredentialHash) -> Session | None:
        """Return the session of that cookie."""
        return self._first("cookie_hash = ?", cookie_hash)

    def of_user(self, user_id: UserId) -> Sequence[Session]:
        """Return the user's sessions, newest use first."""
        return self._all('session."user" = ? ORDER BY seen_at DESC, session.id DESC', user_id)

    def insert(self, user_id: UserId, new: NewSession, at: UnixMs) -> SessionId:
        """Add a session that begins at *at*."""
        times = dict.fromkeys(("created_at", "seen_at", "proved_at"), at)
        return self._add({"user": user_id} | times | asdict(new))

    def delete(self, session_ids: Collection[SessionId]) -> None:
        """Delete sessions."""
        statement = "DELETE FROM session WHERE id = ?"
        self._db.executemany(statement, [(session_id,) for session_id in session_ids])

    def purge(self, *, idle_since: UnixMs, begun_before: UnixMs) -> None:
        """Delete sessions not used since, or begun before, those moments."""
        statement = "DELETE FROM session WHERE seen_at <= ? OR created_at <= ?"
        self._db.execute(statement, (idle_since, begun_before))
