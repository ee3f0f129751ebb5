-- Webhooks of firings, numbered as these are in the money file, and the outcome of each.
CREATE TABLE webhook (
    firing       INTEGER PRIMARY KEY,
    signal       INTEGER NOT NULL,
    fired_at     INTEGER NOT NULL,
    attempts     INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER,
    given_up_at  INTEGER,
    reason       TEXT
) STRICT;
CREATE INDEX webhook_waiting ON webhook (signal, firing)
 WHERE delivered_at IS NULL AND given_up_at IS NULL;
CREATE INDEX webhook_of_signal ON webhook (signal, firing);
CREATE INDEX webhook_age ON webhook (fired_at);

-- When the turn of a signal comes: NULL if none of its webhooks waits.
CREATE TABLE webhook_signal (
    signal   INTEGER PRIMARY KEY,
    due_at   INTEGER,
    failures INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_signal_due ON webhook_signal (due_at) WHERE due_at IS NOT NULL;

-- The last firing that was taken in.
CREATE TABLE webhook_taken (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    firing INTEGER NOT NULL
) STRICT;
