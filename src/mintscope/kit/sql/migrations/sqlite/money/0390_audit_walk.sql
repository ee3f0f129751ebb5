-- How far the walk through all books has come, and what it has added up.  Sums of a walk before the
-- present one count for nothing.
CREATE TABLE audit_walk (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    number      INTEGER NOT NULL,                 -- of the walk
    stage       TEXT NOT NULL CHECK (
        stage IN ('journal', 'payments', 'accounts', 'keys', 'finished')),
    entry       INTEGER NOT NULL DEFAULT 0,       -- entries up to this one are added up
    place       INTEGER NOT NULL DEFAULT 0,       -- the last row of the stage's table so far
    rotated     INTEGER NOT NULL DEFAULT 0,       -- sums of those entries
    frozen      INTEGER NOT NULL DEFAULT 0,
    began_at    INTEGER NOT NULL,                 -- Unix milliseconds
    finished_at INTEGER                           -- of the last walk that came to its end
) STRICT;
CREATE TABLE audit_balance (
    account INTEGER PRIMARY KEY,
    walk    INTEGER NOT NULL,
    balance INTEGER NOT NULL
) STRICT;
CREATE TABLE audit_key_month (
    api_key INTEGER NOT NULL,
    month   INTEGER NOT NULL,
    walk    INTEGER NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (api_key, month)
) STRICT;
CREATE INDEX payment_frozen ON payment (id) WHERE frozen > 0;
