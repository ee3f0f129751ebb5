"""ReviewStore on SQLite: what administrators do, and what they see."""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import Application, ApplicationState, SignupId
from mintscope.core.accounts.audit import Actor, Event
from mintscope.core.accounts.keys.scope import READ_SCOPES, in_order
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.reviews import STANDINGS, Decision, Promotion, Reviewer, unexpected
from mintscope.core.accounts.user import User, UserId
from mintscope.edges.storage.sqlite.accounts.file import AccountFile
from mintscope.edges.storage.sqlite.accounts.rows.api_keys import scopes_text
from mintscope.edges.storage.sqlite.accounts.rows.applications import (
    COLUMNS,
    delete,
    find,
    kept_of,
    revoke_issued,
    subject_of,
)
from mintscope.edges.storage.sqlite.accounts.rows.emails import write_letter
from mintscope.edges.storage.sqlite.accounts.rows.events import events, note
from mintscope.edges.storage.sqlite.accounts.rows.sessions import expect_administrator
from mintscope.edges.storage.sqlite.accounts.rows.users import (
    find_user,
    find_users,
    promote,
    remove_agent_of,
    remove_user,
)

WAITING: Final = f"""
SELECT {COLUMNS} FROM application AS a
 WHERE state = ? AND id > coalesce(?, 0) ORDER BY id LIMIT ?
"""  # noqa: S608  a constant

NEWEST: Final = f"""
SELECT {COLUMNS} FROM application AS a
 WHERE id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?
"""  # noqa: S608  a constant

COUNTS: Final = "SELECT state, count(*) FROM application GROUP BY state"

DECIDE: Final = """
UPDATE application SET state = ?2, decided_at = ?3, decided_by = ?4, scopes = ?5, note = ?6
 WHERE id = ?1 AND state IN (SELECT value FROM json_each(?7))
"""

RESET: Final = """
UPDATE application
   SET state = 'approved', issued_at = NULL, key_nonce = NULL, exchange_redeem = NULL
 WHERE id = ? AND state = 'key_issued'
"""


class SqliteReviewStore:
    """Implements accounts.review.ReviewStore."""

    def __init__(self, file: AccountFile) -> None:
        self._file = file

    async def applications(
        self, state: ApplicationState | None, *, after: SignupId | None, limit: int
    ) -> Sequence[Application]:
        """Return applications: oldest first with a *state*, else newest first."""

        def look(db: apsw.Connection) -> list[Application]:
            if state is None:
                rows = db.execute(NEWEST, (after, limit))
            else:
                rows = db.execute(WAITING, (state, after, limit))
            return [kept_of(row).application for row in rows]

        return self._file.read(look)

    async def application(self, signup_id: SignupId) -> Application | None:
        """Return one."""
        return self._file.read(lambda db: find(db, signup_id))

    async def counts(self) -> Mapping[ApplicationState, int]:
        """Return how many there are in the states that there are any in."""
        rows = self._file.read(lambda db: db.execute(COUNTS).fetchall())
        return {ApplicationState(str(state)): int(str(count)) for state, count in rows}

    async def decide(self, decision: Decision) -> Application:
        """Approve or reject."""
        return await self._file.write(
            lambda db: _decide(db, decision, expect_administrator(db, decision.actor))
        )

    async def reset(self, signup_id: SignupId, *, actor: Reviewer, at: UnixMs) -> Application:
        """Revoke the key that was issued, and approve anew."""
        return await self._file.write(
            lambda db: _reset(db, signup_id, expect_administrator(db, actor), at)
        )

    async def forget(self, signup_id: SignupId, *, actor: Reviewer, at: UnixMs) -> None:
        """Delete the application, its key, and the agent account that was made for it."""
        await self._file.write(
            lambda db: _forget(db, signup_id, expect_administrator(db, actor), at)
        )

    async def users(self, *, before: UserId | None, limit: int) -> Sequence[User]:
        """Return the users who were not removed, newest first."""
        return self._file.read(lambda db: find_users(db, before, limit))

    async def user(self, user_id: UserId) -> User | None:
        """Return one who was not removed."""
        return self._file.read(lambda db: find_user(db, user_id))

    async def remove_user(self, user_id: UserId, *, actor: Reviewer, at: UnixMs) -> None:
        """Remove an account that is not the last administrator's."""
        await self._file.write(
            lambda db: remove_user(db, user_id, expect_administrator(db, actor), at)
        )

    async def promote(self, promotion: Promotion) -> tuple[User, bool]:
        """Make a person an administrator; True: the account was made for it."""
        return await self._file.write(lambda db: promote(db, promotion))

    async def events(self, *, before: int | None, limit: int) -> Sequence[tuple[int, Event]]:
        """Return the audit log, newest first."""
        return self._file.read(lambda db: events(db, before=before, limit=limit))


def _decide(db: apsw.Connection, decision: Decision, actor: Actor) -> Application:
    before = find(db, decision.signup_id)
    expected = msgspec.json.encode(sorted(decision.expected)).decode()
    change = (actor, scopes_text(decision.scopes), decision.note, expected)
    db.execute(DECIDE, (decision.signup_id, decision.state, decision.at, *change))
    if db.changes() == 0:
        wanted = " or ".join(STANDINGS[state] for state in sorted(decision.expected))
        raise unexpected(decision.signup_id, before, expected=wanted)
    after = find(db, decision.signup_id)
    assert after is not None
    told = {} if after.confirmed_at is not None else {"mailbox": "unconfirmed"}
    if decision.note:
        told["note"] = decision.note
    if decision.state is ApplicationState.APPROVED:
        told["scopes"] = _tell_approved(db, after, decision.at)
    elif after.confirmed_at is not None:
        write_letter(db, EmailKind.APPLICATION_REJECTED, after.form.email, {}, None, decision.at)
    _note(db, after.signup_id, str(decision.state), actor, decision.at, **told)
    return after


def _tell_approved(db: apsw.Connection, application: Application, at: UnixMs) -> str:
    """Write that the key can be had; return the scopes it will have."""
    scopes = ", ".join(in_order(READ_SCOPES | application.scopes))
    told = {"scopes": scopes}
    write_letter(db, EmailKind.APPLICATION_APPROVED, application.form.email, told, None, at)
    return scopes


def _reset(db: apsw.Connection, signup_id: SignupId, actor: Actor, at: UnixMs) -> Application:
    before = find(db, signup_id)
    if before is None or before.user_removed:
        raise unexpected(signup_id, before, expected=STANDINGS[ApplicationState.KEY_ISSUED])
    db.execute(RESET, (signup_id,))
    if db.changes() == 0:
        raise unexpected(signup_id, before, expected=STANDINGS[ApplicationState.KEY_ISSUED])
    revoke_issued(db, signup_id, actor=actor, at=at)
    after = find(db, signup_id)
    assert after is not None
    _tell_approved(db, after, at)
    _note(db, signup_id, "reset", actor, at)
    return after


def _forget(db: apsw.Connection, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    application = find(db, signup_id)
    if application is None:
        raise unexpected(signup_id, None, expected="is there")
    revoke_issued(db, signup_id, actor=actor, at=at)
    remove_agent_of(db, signup_id, actor, at)
    delete(db, signup_id, at)
    _note(db, signup_id, "forgotten", actor, at, state=application.state)


def _note(
    db: apsw.Connection,
    signup_id: SignupId,
    action: str,
    actor: Actor,
    at: UnixMs,
    **detail: str,
) -> None:
    subject = subject_of(signup_id)
    note(db, Event(at=at, actor=actor, action=action, subject=subject, detail=detail))
