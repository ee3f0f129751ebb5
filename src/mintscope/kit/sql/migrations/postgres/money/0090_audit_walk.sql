-- least: 1
-- How far the walk through all books has come, and what it has added up.  Sums of a walk before the
-- present one count for nothing.
CREATE TABLE audit_walk (
    id          bigint PRIMARY KEY CHECK (id = 1),
    number      bigint NOT NULL,                 -- of the walk
    stage       text NOT NULL CHECK (
        stage IN ('journal', 'payments', 'accounts', 'keys', 'finished')),
    entry       bigint NOT NULL DEFAULT 0,       -- entries up to this one are added up
    place       bigint NOT NULL DEFAULT 0,       -- the last row of the stage's table so far
    rotated     bigint NOT NULL DEFAULT 0,       -- sums of those entries
    frozen      bigint NOT NULL DEFAULT 0,
    began_at    bigint NOT NULL,                 -- Unix milliseconds
    finished_at bigint                           -- of the last walk that came to its end
);
CREATE TABLE audit_balance (
    account bigint PRIMARY KEY,
    walk    bigint NOT NULL,
    balance bigint NOT NULL
);
CREATE TABLE audit_key_month (
    api_key bigint NOT NULL,
    month   bigint NOT NULL,
    walk    bigint NOT NULL,
    credits bigint NOT NULL,
    PRIMARY KEY (api_key, month)
);
CREATE INDEX payment_frozen ON payment (id) WHERE frozen > 0;
