-- The credits of a day at which an account is notified, and the last day (UTC, since 1970-01-01) of
-- which it was, or that was over when it was set.
CREATE TABLE spend_alert (
    "user"   INTEGER PRIMARY KEY,
    credits  INTEGER NOT NULL CHECK (credits > 0),
    told_day INTEGER NOT NULL
) STRICT;
-- The log of one account: what it did, beside what was done to it.
CREATE INDEX account_event_actor ON account_event (actor);
