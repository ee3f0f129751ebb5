"""Users, sessions, second factors, audit log and idempotency records in SQL."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Final, Generic, NoReturn, TypeVar, cast, get_type_hints

import msgspec
from typing_extensions import Unpack

from mintscope.accounts import factor_rows
from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.keys.scope import in_order
from mintscope.accounts.secrets import IdempotencyRecord
from mintscope.accounts.session import EVER, NewSession, Session, SessionChanges, SessionId
from mintscope.kit.audit import EVERYTHING, Actor, Event, EventFilter, UserId, user_actor
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import (
    Database,
    DatabaseAccess,
    ahead_ms,
    delete_part,
    marks,
    unavailable_on_database_error,
)
from mintscope.kit.sql.group_commit import PATIENCE_S, GroupCommit

IdT = TypeVar("IdT", bound=int)
RowT = TypeVar("RowT")

NO_END: Final = "9223372036854775807"  # greater than any id
DECODERS: Final[Mapping[str, Callable[[Any], object]]] = {
    "scopes": msgspec.json.decode,
    "asked_scopes": msgspec.json.decode,
    "facts": msgspec.json.decode,
    "detail": msgspec.json.decode,
    "is_administrator": bool,
    "is_active": bool,
    "is_closed": bool,
    "by_email": bool,
    "by_telegram": bool,
    "user_removed": bool,
    "has_second_factor": bool,
}


class Columns(Generic[RowT]):
    """The columns of *table* for records of *kind*; columns and fields have the same names.

    expressions   by field: the SQL of a field that has no column of the same name, or the Columns
                  of a field that contains a record (its value is None if the record's first column
                  is NULL)
    """

    def __init__(self, kind: type[RowT], table: str, **expressions: "str | Columns[Any]") -> None:
        self._kind = kind
        names = get_type_hints(kind)
        self._parts = {name: expressions.get(name, f'"{table}".{name}') for name in names}
        parts = self._parts.values()
        self.text: str = ", ".join(part if isinstance(part, str) else part.text for part in parts)

    def read(self, row: Iterable[Any]) -> RowT:
        """Return the record in *row*, whose columns are in the order in which `text` names them."""
        return msgspec.convert(self._fields(iter(row)), self._kind, builtin_types=(bytes,))

    def _fields(self, values: Iterator[Any]) -> dict[str, object] | None:
        found: dict[str, object] = {}
        for name, part in self._parts.items():
            if isinstance(part, Columns):
                found[name] = part._fields(values)
            else:
                value = next(values)
                found[name] = DECODERS[name](value) if name in DECODERS else value
        return None if next(iter(found.values())) is None else found


class Table(Generic[IdT, RowT]):
    """One table inside a transaction; names of columns are never taken from a request.

    NAME     name of the table
    COLUMNS  columns of its records
    SOURCE   the FROM clause, and WHERE with the condition, if any, that all records meet
    """

    NAME: ClassVar[str]
    COLUMNS: ClassVar[Columns[Any]]
    SOURCE: ClassVar[str]

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, row_id: IdT, /) -> RowT | None:
        """Return one record; None if it does not exist."""
        return self._first(f'"{self.NAME}".id = ?', row_id)

    def delete(self, row_id: IdT, /) -> bool:
        """Delete one record; return whether it existed."""
        self._db.execute(f'DELETE FROM "{self.NAME}" WHERE id = ?', (row_id,))  # noqa: S608
        return self._db.changes() == 1

    def _update(self, row_id: IdT, changes: Mapping[str, object]) -> None:
        # Names are quoted, because without quotes `user` is a function of PostgreSQL.
        settings = ", ".join(f'"{name}" = ?' for name in changes)
        values = [_stored(value) for value in changes.values()]
        statement = f'UPDATE "{self.NAME}" SET {settings} WHERE id = ?'  # noqa: S608
        self._db.execute(statement, (*values, row_id))

    def _shared(self, at: UnixMs) -> UnixMs:
        """Return the time *at* of this process's clock as a time of the shared clock."""
        return UnixMs(at - ahead_ms(self._db))

    def _add(self, columns: Mapping[str, object]) -> IdT:
        names = ", ".join(f'"{name}"' for name in columns)
        values = tuple(_stored(value) for value in columns.values())
        given = f"({names}) VALUES ({marks(values)})"
        statement = f'INSERT INTO "{self.NAME}" {given} RETURNING id'
        return cast("IdT", self._db.execute(statement, values).get)

    def _all(self, condition: str, *values: object) -> list[RowT]:
        statement = f"SELECT {self.COLUMNS.text} FROM {self.SOURCE} {condition}"  # noqa: S608
        return [self.COLUMNS.read(row) for row in self._db.execute(statement, values)]

    def _first(self, condition: str, *values: object) -> RowT | None:
        return next(iter(self._all(condition, *values)), None)


def _stored(value: object) -> object:
    """Return *value* as it is stored: sets and mappings as JSON, booleans as numbers."""
    if isinstance(value, frozenset):
        return msgspec.json.encode(in_order(value)).decode()
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return int(value) if isinstance(value, bool) else value


NEVER: Final = -1  # the `last_step` of apps without an accepted code


class FactorRows(Table[IdT, RowT]):
    """Reads and writes one kind of second factor, or recovery codes, inside one transaction."""

    def end(self, user_id: UserId, since: UnixMs) -> None:
        """Delete the rows of a user that were created at *since* or later."""
        statement = f'DELETE FROM {self.NAME} WHERE "user" = ? AND made_at >= ?'  # noqa: S608
        self._db.execute(statement, (user_id, since))


class SqlAppRows(FactorRows[factor_rows.AppId, factor_rows.App]):
    """Reads and writes authenticator apps, at most one for each user, inside one transaction."""

    NAME = "authenticator_app"
    COLUMNS = Columns(
        factor_rows.App, NAME, app_id="authenticator_app.id", user_id='authenticator_app."user"'
    )
    SOURCE = "authenticator_app WHERE"

    def update(
        self, app_id: factor_rows.AppId, /, **changes: Unpack[factor_rows.AppChanges]
    ) -> None:
        """Set the columns of an authenticator app that *changes* names."""
        self._update(app_id, changes)

    def of_user(self, user_id: UserId) -> factor_rows.App | None:
        """Return the app of a user, confirmed or not; None if there is none."""
        return self._first('"user" = ?', user_id)

    def replace(self, user_id: UserId, nonce: bytes, at: UnixMs) -> factor_rows.AppId:
        """Replace the user's app, if any, with a new, unconfirmed app."""
        self.end(user_id, EVER)
        return self._add({"user": user_id, "nonce": nonce, "made_at": at, "last_step": NEVER})


class SqlRecoveryRows(FactorRows[factor_rows.CodeId, factor_rows.RecoveryCode]):
    """Reads and writes recovery codes, inside one transaction."""

    NAME = "recovery_code"
    COLUMNS = Columns(factor_rows.RecoveryCode, NAME, code_id="recovery_code.id")
    SOURCE = "recovery_code WHERE"

    def unused(self, user_id: UserId) -> Sequence[factor_rows.RecoveryCode]:
        """Return the unused recovery codes of a user."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def replace(self, user_id: UserId, hashes: Sequence[CredentialHash], at: UnixMs) -> None:
        """Replace the user's recovery codes with those of *hashes*."""
        self.end(user_id, EVER)
        for code_hash in hashes:
            self._add({"user": user_id, "code_hash": code_hash, "made_at": at})


class SqlPasskeyRows(FactorRows[factor_rows.PasskeyId, factor_rows.Passkey]):
    """Reads and writes passkeys, inside one transaction."""

    NAME = "passkey"
    COLUMNS = Columns(factor_rows.Passkey, NAME, passkey_id="passkey.id", user_id='passkey."user"')
    SOURCE = "passkey WHERE"

    def update(
        self, passkey_id: factor_rows.PasskeyId, /, **changes: Unpack[factor_rows.PasskeyChanges]
    ) -> None:
        """Set the columns of a passkey that *changes* names."""
        self._update(passkey_id, changes)

    def of_user(self, user_id: UserId) -> Sequence[factor_rows.Passkey]:
        """Return the passkeys of a user, oldest first."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def find(self, credential_id: bytes) -> factor_rows.Passkey | None:
        """Return the passkey with the id *credential_id*; None if there is none."""
        return self._first("credential_id = ?", credential_id)

    def insert(
        self, user_id: UserId, new: factor_rows.NewPasskey, at: UnixMs
    ) -> factor_rows.PasskeyId:
        """Add a passkey; its credential must be new."""
        return self._add({"user": user_id, "made_at": at} | asdict(new))


class SqlSignInRows(Table[factor_rows.SignInId, factor_rows.HalfSignIn]):
    """Reads and writes sign-ins that wait for a second factor, inside one transaction."""

    NAME = "half_sign_in"
    COLUMNS = Columns(
        factor_rows.HalfSignIn, NAME, sign_in_id="half_sign_in.id", user_id='half_sign_in."user"'
    )
    SOURCE = "half_sign_in WHERE"

    def find(self, ticket_hash: CredentialHash) -> factor_rows.HalfSignIn | None:
        """Return the sign-in of a ticket, expired or not; None if there is none."""
        return self._first("ticket_hash = ?", ticket_hash)

    def insert(
        self, user_id: UserId, ticket_hash: CredentialHash, at: UnixMs
    ) -> factor_rows.SignInId:
        """Add a sign-in that began at *at*."""
        return self._add({"user": user_id, "ticket_hash": ticket_hash, "begun_at": at})

    def end(self, user_id: UserId) -> None:
        """Delete every waiting sign-in of a user."""
        self._db.execute('DELETE FROM half_sign_in WHERE "user" = ?', (user_id,))

    def purge(self, begun_before: UnixMs) -> None:
        """Delete sign-ins that began before *begun_before*."""
        self._db.execute("DELETE FROM half_sign_in WHERE begun_at < ?", (begun_before,))


HAS_SECOND_FACTOR: Final = """(
    EXISTS (SELECT 1 FROM authenticator_app
             WHERE authenticator_app."user" = "user".id AND confirmed_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM passkey WHERE passkey."user" = "user".id))"""
USER: Final = Columns(
    factor_rows.User,
    "user",
    user_id='"user".id',
    is_administrator="administrator",
    has_second_factor=HAS_SECOND_FACTOR,
)


class SqlUserRows(Table[UserId, factor_rows.KeptUser]):
    """Reads and writes users, inside one transaction; only `find` returns removed users."""

    NAME = "user"
    COLUMNS = Columns(factor_rows.KeptUser, "user", user=USER)
    SOURCE = '"user" WHERE removed_at IS NULL AND'

    def update(self, user_id: UserId, /, **changes: Unpack[factor_rows.UserChanges]) -> None:
        """Set the columns of a user that *changes* names."""
        self._update(user_id, changes)

    def find(self, user_id: UserId) -> factor_rows.KeptUser | None:
        """Return a user, removed or not; None if there is none."""
        statement = f'SELECT {self.COLUMNS.text} FROM "user" WHERE id = ?'  # noqa: S608  a constant
        row = self._db.execute(statement, (user_id,)).fetchone()
        return None if row is None else self.COLUMNS.read(row)

    def of_email(
        self, email: EmailAddress, kind: factor_rows.UserKind
    ) -> Sequence[factor_rows.KeptUser]:
        """Return the users of *kind* with *email*, newest first; there is at most one person."""
        # The kind is a literal in the statement, so that the partial index of that kind is used.
        return self._all(f"kind = '{kind}' AND email = ? ORDER BY id DESC", email)

    def newest(self, before: UserId | None, limit: int) -> Sequence[factor_rows.User]:
        """Return up to *limit* users, newest first.

        before   only users with a smaller id; None: all
        """
        condition = f"id < coalesce(?, {NO_END}) ORDER BY id DESC LIMIT ?"
        return [kept.user for kept in self._all(condition, before, limit)]

    def administrators(self) -> Sequence[UserId]:
        """Return the ids of all administrators."""
        return [kept.user.user_id for kept in self._all("administrator = 1")]

    def is_taken(self, username: str) -> bool:
        """Return whether a user, removed or not, has the name *username*."""
        taken = 'SELECT count(*) FROM "user" WHERE username = ?'
        return bool(self._db.execute(taken, (username,)).get)

    def insert(self, new: factor_rows.NewUser) -> UserId:
        """Add a user."""
        return self._add(asdict(new))

    def forget_name(self, user_id: UserId) -> None:
        """Delete the e-mail address of a removed user, and replace the user name."""
        # `expect_username` refuses such a name, so it cannot be taken.
        self.update(user_id, email=EmailAddress(""), username=f"removed-{user_id}")

    def hand_over(self, giver: UserId, taker: UserId) -> None:
        """Transfer every key and every application of *giver* to *taker*."""
        for table in ("api_key", "application"):
            statement = f'UPDATE {table} SET "user" = ?2 WHERE "user" = ?1'  # noqa: S608  a constant
            self._db.execute(statement, (giver, taker))


class SqlSessionRows(Table[SessionId, Session]):
    """Reads and writes the sessions of existing users, expired or not, inside one transaction.

    The field `csrf` of a session that is read is empty.
    """

    NAME = "session"
    COLUMNS = Columns(Session, "session", session_id="session.id", user=USER, csrf="''")
    SOURCE = 'session JOIN "user" ON "user".id = session."user" WHERE removed_at IS NULL AND'

    def update(self, session_id: SessionId, /, **changes: Unpack[SessionChanges]) -> None:
        """Set the columns of a session that *changes* names."""
        self._update(session_id, changes)

    def find(self, cookie_hash: CredentialHash) -> Session | None:
        """Return the session whose cookie has this hash; None if there is none."""
        return self._first("cookie_hash = ?", cookie_hash)

    def of_user(self, user_id: UserId) -> Sequence[Session]:
        """Return the user's sessions, the last used first."""
        return self._all('session."user" = ? ORDER BY seen_at DESC, session.id DESC', user_id)

    def insert(self, user_id: UserId, new: NewSession, at: UnixMs) -> SessionId:
        """Add a session that begins at *at*."""
        times = dict.fromkeys(("created_at", "seen_at", "proved_at"), at)
        return self._add({"user": user_id} | times | asdict(new))

    def purge(self, *, idle_since: UnixMs, begun_before: UnixMs) -> None:
        """Delete old sessions.

        idle_since     sessions last used at this time or earlier are deleted
        begun_before   sessions begun at this time or earlier are deleted
        """
        statement = "DELETE FROM session WHERE seen_at <= ? OR created_at <= ?"
        self._db.execute(statement, (idle_since, begun_before))


T = TypeVar("T")
Work = Callable[[Database], T]

UNAVAILABLE: Final = "The accounts are not available right now."


class AccountConnections:
    """Runs work on the database of accounts or of webhooks; used in one event loop.

    Writes run in a thread, each in a transaction that holds the write lock from its start, unless
    *beside* is True.  Reads never wait for a writer; a read that tries to write fails.
    """

    def __init__(
        self,
        writing: Database,
        reading: DatabaseAccess[Database],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._writing = writing
        self._reading = reading
        # No items are queued, only calls of `run`: each write is a transaction of its own.
        self._group: GroupCommit[NoReturn, None] = GroupCommit(
            lambda _: (), rest=lambda: None, patience_s=patience_s
        )

    async def write(self, work: Work[T], *, beside: bool = False) -> T:
        """Run *work* in a transaction; return its result once the changes are durable.

        An exception of *work* undoes its changes.

        beside    whether other transactions may write at the same time
        Raises    ServiceUnavailable if the database fails or does not answer in time; the changes
                  are then undone, unless their commit had already begun
        """
        refused = threading.Event()
        with unavailable_on_database_error(UNAVAILABLE):
            try:
                return await self._group.run(lambda: self._write(work, refused, beside=beside))
            except ServiceUnavailable as cause:  # the queue's message is about charges
                refused.set()
                raise ServiceUnavailable(UNAVAILABLE) from cause

    async def read(self, work: Work[T]) -> T:
        """Run *work*, which must only read, on one consistent snapshot; return its result.

        Raises ServiceUnavailable if the database fails or does not answer in time.
        """

        def looked(database: Database) -> T:
            with database.snapshot():
                return work(database)

        with unavailable_on_database_error(UNAVAILABLE):
            return await self._reading.run(looked)

    async def close(self) -> None:
        """Finish the queued work, then close the connections."""
        await self._group.close()
        self._writing.close()
        self._reading.close()

    def _write(self, work: Work[T], refused: threading.Event, *, beside: bool) -> T:
        """Return the result of *work*; roll *work* back if *refused* is set when it has run.

        *refused* means that the caller has already got ServiceUnavailable.
        """
        with self._writing.transaction(beside=beside):
            answer = work(self._writing)
            # Checked before the commit, because a refused caller expects no change.
            if refused.is_set():
                raise ServiceUnavailable(UNAVAILABLE)
            return answer


# UNION uses the indexes of actor and subject; for OR with IN, PostgreSQL reads the whole log.
OF_ACCOUNT: Final = """id IN (
    SELECT id FROM account_event WHERE actor = ?
    UNION SELECT id FROM account_event WHERE subject = ?
    UNION SELECT e.id FROM api_key AS k JOIN account_event AS e ON e.subject = 'key:' || k.id
     WHERE k."user" = ?)"""


class SqlEventRows(Table[int, Event]):
    """Reads and writes the audit log, inside one transaction."""

    NAME = "account_event"
    COLUMNS = Columns(Event, "account_event")
    SOURCE = "account_event WHERE"

    def insert(self, event: Event) -> None:
        """Add *event*."""
        self._add(asdict(event))

    def note(self, at: UnixMs, actor: Actor, action: str, subject: str, **detail: str) -> None:
        """Add an event to the audit log: *actor* did *action* to *subject*, with *detail*."""
        self.insert(Event(at=at, actor=actor, action=action, subject=subject, detail=detail))

    def note_own(self, at: UnixMs, user_id: UserId, action: str, **detail: str) -> None:
        """Record in the audit log that a user did *action* to the user's own account."""
        self.note(at, user_actor(user_id), action, f"user:{user_id}", **detail)

    def newest(
        self, before: int | None, limit: int, wanted: EventFilter = EVERYTHING
    ) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events of the audit log, each with its ID, newest first.

        before   only events with a smaller ID; None: all
        wanted   only events that this filter selects
        """
        conditions: list[str] = [f"id < coalesce(?, {NO_END})"]
        values: list[object] = [before]
        if wanted.who:
            anyone = "(actor = ? OR subject = ?)"
            conditions.append(anyone if wanted.owner is None else OF_ACCOUNT)
            values += [wanted.who, wanted.who]
            values += [] if wanted.owner is None else [wanted.owner]
        if wanted.action:
            conditions.append("substr(action, 1, length(?)) = ?")
            values += [wanted.action, wanted.action]
        events = f"SELECT id, {self.COLUMNS.text} FROM account_event"  # noqa: S608  a constant
        page = f"WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?"
        rows = self._db.execute(f"{events} {page}", (*values, limit))
        return [(row_id, self.COLUMNS.read(columns)) for row_id, *columns in rows]

    def last_number(self, subject: str, action: str) -> int:
        """Return the ID of the newest event in which *action* was done to *subject*, or 0."""
        # The sum `id + 0` keeps PostgreSQL from searching the whole log backwards.
        newest = (
            "SELECT coalesce(max(id + 0), 0) FROM account_event WHERE subject = ? AND action = ?"
        )
        return int(self._db.execute(newest, (subject, action)).get)

    def last_at(self, subject: str, action: str) -> UnixMs | None:
        """Return the time of the newest event *action* on *subject*; None if there is none."""
        newest = "SELECT max(at) FROM account_event WHERE subject = ? AND action = ?"
        at = self._db.execute(newest, (subject, action)).get
        return None if at is None else UnixMs(at)


FIND: Final = "SELECT asked, thing FROM made_thing WHERE key_hash = ?"
INSERT: Final = "INSERT INTO made_thing (key_hash, asked, thing, made_at) VALUES (?, ?, ?, ?)"
OLD: Final = "SELECT key_hash FROM made_thing WHERE made_at < ? ORDER BY made_at LIMIT ?"
PURGE: Final = "DELETE FROM made_thing WHERE key_hash = ?"


class SqlIdempotencyRows:
    """Reads and writes the results of requests with an Idempotency-Key, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find(self, key_hash: CredentialHash) -> IdempotencyRecord | None:
        """Return the record of a request by its Idempotency-Key's hash; None if there is none."""
        row = self._db.execute(FIND, (key_hash,)).fetchone()
        return None if row is None else IdempotencyRecord(bytes(row[0]), row[1])

    def insert(self, key_hash: CredentialHash, made: IdempotencyRecord, at: UnixMs) -> None:
        """Store *made*, the record of a request whose Idempotency-Key has the hash *key_hash*."""
        self._db.execute(INSERT, (key_hash, made.asked, made.thing_id, at))

    def purge(self, before: UnixMs, limit: int) -> bool:
        """Delete up to *limit* records older than *before*; return whether there may be more."""
        return delete_part(self._db, OLD, PURGE, before, limit)
