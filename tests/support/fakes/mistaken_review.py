"""A mistake that tests of crashes must find."""

from typing import Final

import apsw
from typing_extensions import override

from mintscope.core.accounts.application import Application
from mintscope.core.accounts.audit import Actor, Event
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.reviews import Decision
from mintscope.edges.storage.sqlite.accounts.reviews import SqliteReviewStore
from mintscope.edges.storage.sqlite.accounts.rows.applications import find
from mintscope.edges.storage.sqlite.accounts.rows.emails import write_letter
from mintscope.edges.storage.sqlite.accounts.rows.events import note
from mintscope.edges.storage.sqlite.accounts.rows.sessions import expect_administrator

APPROVE: Final = """
UPDATE application SET state = 'approved', decided_at = ?2, decided_by = ?3 WHERE id = ?1
"""


class WritesTheLetterAfterwards(SqliteReviewStore):
    """The letter is not in the transaction of what it tells of."""

    @override
    async def decide(self, decision: Decision) -> Application:
        application = await self._file.write(
            lambda db: _approve(db, decision, expect_administrator(db, decision.actor))
        )
        kind, mailbox = EmailKind.APPLICATION_APPROVED, application.form.email
        await self._file.write(lambda db: write_letter(db, kind, mailbox, {}, None, decision.at))
        return application


def _approve(db: apsw.Connection, decision: Decision, actor: Actor) -> Application:
    db.execute(APPROVE, (decision.signup_id, decision.at, actor))
    subject = f"application:{decision.signup_id}"
    note(db, Event(at=decision.at, actor=actor, action="approved", subject=subject))
    application = find(db, decision.signup_id)
    assert application is not None
    return application
