-- least: 1
-- The Telegram chat of an account, and what alerts send to it.
CREATE TABLE telegram_chat (
    "user"     bigint PRIMARY KEY,
    chat_id    bigint NOT NULL,
    name       text NOT NULL,
    linked_at  bigint NOT NULL,
    blocked_at bigint
);
CREATE INDEX telegram_chat_id ON telegram_chat (chat_id);
ALTER TABLE signal ADD COLUMN by_telegram bigint NOT NULL DEFAULT 0;
ALTER TABLE signal ADD COLUMN telegram_at bigint;
ALTER TABLE signal ADD COLUMN telegram_due_at bigint;
CREATE INDEX signal_telegram_due ON signal (telegram_due_at) WHERE telegram_due_at IS NOT NULL;

-- telegram: waiting, sent or not_sent; NULL: not by Telegram.
ALTER TABLE signal_firing ADD COLUMN telegram text;
ALTER TABLE signal_firing ADD COLUMN telegram_sent_at bigint;
ALTER TABLE signal_firing ADD COLUMN telegram_note text;
CREATE INDEX signal_firing_telegram ON signal_firing (signal, id) WHERE telegram = 'waiting';
