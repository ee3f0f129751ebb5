-- Months of the journal that are closed: proven entry by entry, added up, and chained by hashes.
CREATE TABLE closed_month (
    month      INTEGER PRIMARY KEY,            -- 12 * year + month - 1
    last_entry INTEGER NOT NULL,               -- entries up to this one belong to it, or to one before
    rotated    INTEGER NOT NULL,               -- sums of the journal up to that entry
    frozen     INTEGER NOT NULL,
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),  -- of the one before, and of its rows
    closed_at  INTEGER NOT NULL                -- Unix milliseconds
) STRICT;

-- An account that has entries in the month.
CREATE TABLE closed_balance (
    account     INTEGER NOT NULL REFERENCES credit_account,
    month       INTEGER NOT NULL,
    received    INTEGER NOT NULL,              -- the sum of what was no spend
    spent       INTEGER NOT NULL CHECK (spent >= 0),
    spend_count INTEGER NOT NULL CHECK (spend_count >= 0),
    first_entry INTEGER NOT NULL,
    last_entry  INTEGER NOT NULL,
    balance     INTEGER NOT NULL CHECK (balance >= 0),      -- after the last entry
    PRIMARY KEY (account, month)
) STRICT, WITHOUT ROWID;
CREATE INDEX closed_balance_month ON closed_balance (month, account);

-- What the entries of the month say that a key spent, by the month in which it counts.
CREATE TABLE closed_key (
    api_key   INTEGER NOT NULL REFERENCES api_key,
    month     INTEGER NOT NULL,
    closed_in INTEGER NOT NULL,
    credits   INTEGER NOT NULL,
    PRIMARY KEY (api_key, month, closed_in)
) STRICT, WITHOUT ROWID;
CREATE INDEX closed_key_closed_in ON closed_key (closed_in, api_key, month);

CREATE TRIGGER closed_month_is_never_changed BEFORE UPDATE ON closed_month BEGIN
    SELECT raise(ABORT, 'a closed month is never changed');
END;
CREATE TRIGGER closed_month_is_never_deleted BEFORE DELETE ON closed_month BEGIN
    SELECT raise(ABORT, 'a closed month is never changed');
END;
-- Rows of a month that is being closed are made again if it is interrupted.
CREATE TRIGGER closed_balance_is_never_changed BEFORE UPDATE ON closed_balance BEGIN
    SELECT raise(ABORT, 'a closed month is never changed');
END;
CREATE TRIGGER closed_balance_is_never_deleted BEFORE DELETE ON closed_balance
 WHEN OLD.month <= (SELECT max(month) FROM closed_month) BEGIN
    SELECT raise(ABORT, 'a closed month is never changed');
END;
CREATE TRIGGER closed_key_is_never_changed BEFORE UPDATE ON closed_key BEGIN
    SELECT raise(ABORT, 'a closed month is never changed');
END;
CREATE TRIGGER closed_key_is_never_deleted BEFORE DELETE ON closed_key
 WHEN OLD.closed_in <= (SELECT max(month) FROM closed_month) BEGIN
    SELECT raise(ABORT, 'a closed month is never changed');
END;

-- Of a closed month its spends may be deleted; never the newest entry, whose number would be given
-- again.
DROP TRIGGER credit_entry_is_never_deleted;
CREATE TRIGGER credit_entry_is_never_deleted BEFORE DELETE ON credit_entry
 WHEN OLD.kind <> 'spend'
   OR OLD.id > coalesce(
       (SELECT last_entry FROM closed_month ORDER BY month DESC LIMIT 1), 0)
   OR OLD.id >= (SELECT max(id) FROM credit_entry) BEGIN
    SELECT raise(ABORT, 'the journal is append-only');
END;

-- What a walk adds up of an account, for the month that it closes.
ALTER TABLE audit_balance ADD COLUMN received    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN spent       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN spend_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN first_entry INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN last_entry  INTEGER NOT NULL DEFAULT 0;

-- A walk goes through more tables, so that another one begins.
ALTER TABLE audit_walk RENAME TO audit_walk_before;
CREATE TABLE audit_walk (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    number      INTEGER NOT NULL,              -- of the walk
    stage       TEXT    NOT NULL,
    entry       INTEGER NOT NULL DEFAULT 0,    -- entries up to this one are added up
    place       INTEGER NOT NULL DEFAULT 0,    -- the last row of the stage's table so far
    rotated     INTEGER NOT NULL DEFAULT 0,    -- sums of those entries
    frozen      INTEGER NOT NULL DEFAULT 0,
    began_at    INTEGER NOT NULL,              -- Unix milliseconds
    finished_at INTEGER,                       -- of the last walk that came to its end
    summed      INTEGER NOT NULL DEFAULT 0,    -- is `entry`, unless an older version has walked
    month       INTEGER NOT NULL DEFAULT 0,    -- that is closed, or compared
    hash        BLOB    NOT NULL DEFAULT x'',  -- of its rows so far
    forgotten   INTEGER NOT NULL DEFAULT 0,    -- spends up to this entry are deleted
    checked     INTEGER NOT NULL DEFAULT 0     -- up to this entry audits have looked at what is new
) STRICT;
INSERT INTO audit_walk (id, number, stage, began_at, finished_at)
SELECT id, number, 'finished', began_at, finished_at FROM audit_walk_before;
DROP TABLE audit_walk_before;

-- Credits that an account got by anything but spends: the journal, added up as far as the mark.
CREATE TABLE credit_received (
    account INTEGER PRIMARY KEY REFERENCES credit_account,
    credits INTEGER NOT NULL
) STRICT;
CREATE TABLE credit_received_mark (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    entry INTEGER NOT NULL   -- the last that is added up
) STRICT;
INSERT INTO credit_received_mark VALUES (1, 0);
