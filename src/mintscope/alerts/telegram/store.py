"""Telegram chats in SQL, and the firings that wait for them."""

from collections.abc import Collection, Sequence
from typing import Final

from mintscope.alerts.alert import (
    Alert,
    Firing,
    FiringId,
    SignalId,
    TelegramChat,
    TelegramState,
)
from mintscope.alerts.store import SqlAlertRows, SqlFiringRows
from mintscope.kit.audit import UserId
from mintscope.kit.primitives import UnixMs
from mintscope.kit.sql.database import Database

CHAT: Final = """
SELECT "user", chat_id, name, linked_at, blocked_at FROM telegram_chat WHERE "user" = ?
"""
LINK: Final = """
INSERT INTO telegram_chat ("user", chat_id, name, linked_at) VALUES (?, ?, ?, ?)
    ON CONFLICT ("user") DO UPDATE SET chat_id = excluded.chat_id, name = excluded.name,
        linked_at = excluded.linked_at, blocked_at = NULL
"""
UNLINK: Final = 'DELETE FROM telegram_chat WHERE "user" = ?'
USERS: Final = 'SELECT "user" FROM telegram_chat WHERE chat_id = ? ORDER BY "user"'
MOVE: Final = "UPDATE telegram_chat SET chat_id = ? WHERE chat_id = ?"
BLOCK: Final = 'UPDATE telegram_chat SET blocked_at = ? WHERE "user" = ? AND chat_id = ?'
MARK: Final = """
UPDATE signal_firing SET telegram = ?, telegram_sent_at = ?, telegram_note = ? WHERE id = ?
"""


class SqlTelegramChatRows:
    """The Telegram chats of accounts, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def chat(self, user_id: UserId) -> TelegramChat | None:
        """Return the chat of a user."""
        row = self._db.execute(CHAT, (user_id,)).fetchone()
        if row is None:
            return None
        user, chat_id, name, linked_at, blocked_at = row
        return TelegramChat(
            user_id=UserId(user),
            chat_id=chat_id,
            name=name,
            linked_at=UnixMs(linked_at),
            blocked_at=None if blocked_at is None else UnixMs(blocked_at),
        )

    def link(self, chat: TelegramChat) -> None:
        """Set the chat of a user."""
        self._db.execute(LINK, (chat.user_id, chat.chat_id, chat.name, chat.linked_at))

    def unlink(self, user_id: UserId) -> None:
        """Delete the chat of a user."""
        self._db.execute(UNLINK, (user_id,))

    def users_of(self, chat_id: int) -> Sequence[UserId]:
        """Return the users with that chat."""
        return [UserId(user) for (user,) in self._db.execute(USERS, (chat_id,))]

    def move(self, old_id: int, new_id: int) -> None:
        """Change the number of a chat, because a group became a supergroup."""
        self._db.execute(MOVE, (new_id, old_id))

    def block(self, user_id: UserId, chat_id: int, at: UnixMs) -> None:
        """Record that the bot may not write to a chat, if it is still that of the user."""
        self._db.execute(BLOCK, (at, user_id, chat_id))


class SqlTelegramRows:
    """Firings to send by Telegram, inside one transaction."""

    def __init__(self, db: Database, firings: SqlFiringRows, signals: SqlAlertRows) -> None:
        self._db = db
        self._firings = firings
        self._signals = signals

    def due(self, now: UnixMs, limit: int) -> Sequence[Alert]:
        """Return up to *limit* signals with firings due for Telegram, longest due first."""
        return self._signals.telegram_due(now, limit)

    def waiting(self, signal_id: SignalId, limit: int) -> Sequence[Firing]:
        """Return up to *limit* waiting firings of a signal, oldest first."""
        return self._firings.for_telegram(signal_id, limit)

    def mark(
        self,
        firings: Collection[FiringId],
        state: TelegramState,
        *,
        sent_at: UnixMs | None = None,
        note: str | None = None,
    ) -> None:
        """Record the delivery of *firings*."""
        marks = [(str(state), sent_at, note, number) for number in firings]
        self._db.executemany(MARK, marks)
