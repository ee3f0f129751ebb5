"""The audit log of accounts: rows written in the transaction of what they tell of."""

from typing import Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import Actor, Event

NOTE: Final = """
INSERT INTO account_event (at, actor, action, subject, detail) VALUES (?, ?, ?, ?, ?)
"""

EVENTS: Final = """
SELECT id, at, actor, action, subject, detail FROM account_event
 WHERE id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?
"""


def note(db: apsw.Connection, event: Event) -> None:
    """Add *event*; inside the transaction of what it tells of."""
    detail = msgspec.json.encode(event.detail).decode()
    db.execute(NOTE, (event.at, event.actor, event.action, event.subject, detail))


def events(db: apsw.Connection, *, before: int | None, limit: int) -> list[tuple[int, Event]]:
    """Return up to *limit* events older than the row *before*, newest first."""
    return [
        (
            row_id,
            Event(
                at=UnixMs(at),
                actor=Actor(actor),
                action=action,
                subject=subject,
                detail=msgspec.json.decode(detail, type=dict[str, str]),
            ),
        )
        for row_id, at, actor, action, subject, detail in db.execute(EVENTS, (before, limit))
    ]
