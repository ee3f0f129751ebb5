-- The Telegram chat of an account, and what alerts send to it.
CREATE TABLE telegram_chat (
    "user"     INTEGER PRIMARY KEY,
    chat_id    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    linked_at  INTEGER NOT NULL,
    blocked_at INTEGER
) STRICT;
CREATE INDEX telegram_chat_id ON telegram_chat (chat_id);
ALTER TABLE signal ADD COLUMN by_telegram INTEGER NOT NULL DEFAULT 0;
ALTER TABLE signal ADD COLUMN telegram_at INTEGER;
ALTER TABLE signal ADD COLUMN telegram_due_at INTEGER;
CREATE INDEX signal_telegram_due ON signal (telegram_due_at) WHERE telegram_due_at IS NOT NULL;

-- telegram: waiting, sent or not_sent; NULL: not by Telegram.
ALTER TABLE signal_firing ADD COLUMN telegram TEXT;
ALTER TABLE signal_firing ADD COLUMN telegram_sent_at INTEGER;
ALTER TABLE signal_firing ADD COLUMN telegram_note TEXT;
CREATE INDEX signal_firing_telegram ON signal_firing (signal, id) WHERE telegram = 'waiting';
