-- least: 1
-- Webhooks of firings, numbered as these are in signal_firing, and the outcome of each.
CREATE TABLE webhook (
    firing       bigint PRIMARY KEY,
    signal       bigint NOT NULL,
    fired_at     bigint NOT NULL,
    attempts     bigint NOT NULL DEFAULT 0,
    delivered_at bigint,
    given_up_at  bigint,
    reason       text
);
CREATE INDEX webhook_waiting ON webhook (signal, firing)
 WHERE delivered_at IS NULL AND given_up_at IS NULL;
CREATE INDEX webhook_of_signal ON webhook (signal, firing);
CREATE INDEX webhook_age ON webhook (fired_at);

-- When the turn of a signal comes: NULL if none of its webhooks waits.
CREATE TABLE webhook_signal (
    signal   bigint PRIMARY KEY,
    due_at   bigint,
    failures bigint NOT NULL
);
CREATE INDEX webhook_signal_due ON webhook_signal (due_at) WHERE due_at IS NOT NULL;

-- The last firing that was taken in.
CREATE TABLE webhook_taken (
    id     bigint PRIMARY KEY CHECK (id = 1),
    firing bigint NOT NULL
);

-- The outcome of a webhook is noted here from now on, and no longer in signal_firing.  The indexes
-- signal_firing_due and signal_firing_waiting still serve processes of the version before, which go
-- on during an upgrade: a later migration drops them.
