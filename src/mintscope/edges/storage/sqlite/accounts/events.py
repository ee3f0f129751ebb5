"""EventRows on SQLite."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import apsw
import msgspec

from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.audit import Actor, Event
from mintscope.edges.storage.sqlite.accounts.columns import insert

NEWEST: Final = """
SELECT id, at, actor, action, subject, detail FROM account_event
 WHERE id < coalesce(?, 9223372036854775807) ORDER BY id DESC LIMIT ?
"""


class SqliteEventRows:
    """Implements EventRows."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def insert(self, event: Event) -> None:
        """Add *event*."""
        detail = msgspec.json.encode(event.detail).decode()
        insert(self._db, "account_event", asdict(event) | {"detail": detail})

    def newest(self, before: int | None, limit: int) -> Sequence[tuple[int, Event]]:
        """Return up to *limit* events with their numbers, newest first, older than *before*."""
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
            for row_id, at, actor, action, subject, detail in self._db.execute(
                NEWEST, (before, limit)
            )
        ]
