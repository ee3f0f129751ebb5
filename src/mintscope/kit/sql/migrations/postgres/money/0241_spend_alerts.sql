-- least: 1
-- The credits of a day at which an account is notified, and the last day (UTC, since 1970-01-01) of
-- which it was, or that was over when it was set.
CREATE TABLE spend_alert (
    "user"   bigint PRIMARY KEY,
    credits  bigint NOT NULL CHECK (credits > 0),
    told_day bigint NOT NULL
);
-- The log of one account: what it did, beside what was done to it.
CREATE INDEX account_event_actor ON account_event (actor);
