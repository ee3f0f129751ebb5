-- least: 1
-- Months of the journal that are closed: proven entry by entry, added up, and chained by hashes.
CREATE TABLE closed_month (
    month      bigint PRIMARY KEY,             -- 12 * year + month - 1
    last_entry bigint NOT NULL,                -- entries up to this one belong to it, or to one before
    rotated    bigint NOT NULL,                -- sums of the journal up to that entry
    frozen     bigint NOT NULL,
    hash       bytea  NOT NULL CHECK (length(hash) = 32),  -- of the one before, and of its rows
    closed_at  bigint NOT NULL                 -- Unix milliseconds
);

-- An account that has entries in the month.
CREATE TABLE closed_balance (
    account     bigint NOT NULL REFERENCES credit_account,
    month       bigint NOT NULL,
    received    bigint NOT NULL,               -- the sum of what was no spend
    spent       bigint NOT NULL CHECK (spent >= 0),
    spend_count bigint NOT NULL CHECK (spend_count >= 0),
    first_entry bigint NOT NULL,
    last_entry  bigint NOT NULL,
    balance     bigint NOT NULL CHECK (balance >= 0),      -- after the last entry
    PRIMARY KEY (account, month)
);
CREATE INDEX closed_balance_month ON closed_balance (month, account);

-- What the entries of the month say that a key spent, by the month in which it counts.
CREATE TABLE closed_key (
    api_key   bigint NOT NULL REFERENCES api_key,
    month     bigint NOT NULL,
    closed_in bigint NOT NULL,
    credits   bigint NOT NULL,
    PRIMARY KEY (api_key, month, closed_in)
);
CREATE INDEX closed_key_closed_in ON closed_key (closed_in, api_key, month);

CREATE TRIGGER closed_month_is_never_changed BEFORE UPDATE OR DELETE ON closed_month
    FOR EACH ROW EXECUTE FUNCTION refuse('a closed month is never changed');
CREATE TRIGGER closed_balance_is_never_changed BEFORE UPDATE ON closed_balance
    FOR EACH ROW EXECUTE FUNCTION refuse('a closed month is never changed');
CREATE TRIGGER closed_key_is_never_changed BEFORE UPDATE ON closed_key
    FOR EACH ROW EXECUTE FUNCTION refuse('a closed month is never changed');

-- Rows of a month that is being closed are made again if it is interrupted.
CREATE FUNCTION expect_open_balances() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone WHERE month <= (SELECT max(month) FROM closed_month)) THEN
        RAISE EXCEPTION 'a closed month is never changed' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER closed_balance_is_never_deleted AFTER DELETE ON closed_balance
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION expect_open_balances();
CREATE FUNCTION expect_open_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone WHERE closed_in <= (SELECT max(month) FROM closed_month)) THEN
        RAISE EXCEPTION 'a closed month is never changed' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER closed_key_is_never_deleted AFTER DELETE ON closed_key
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION expect_open_keys();

-- Of a closed month its spends may be deleted; never the newest entry, as on SQLite.  From the first
-- on, code that would look for them does not start any more.
CREATE FUNCTION expect_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM gone WHERE kind <> 'spend' OR id > coalesce(
                  (SELECT last_entry FROM closed_month ORDER BY month DESC LIMIT 1), 0))
       OR (SELECT max(id) FROM gone) > (SELECT coalesce(max(id), 0) FROM credit_entry) THEN
        RAISE EXCEPTION 'the journal is append-only' USING ERRCODE = 'check_violation';
    END IF;
    UPDATE migration SET least = 100 WHERE kind = 'money' AND number = 100 AND least < 100;
    RETURN NULL;
END $$;
DROP TRIGGER credit_entry_is_never_changed ON credit_entry;
CREATE TRIGGER credit_entry_is_never_changed BEFORE UPDATE ON credit_entry
    FOR EACH ROW EXECUTE FUNCTION refuse('the journal is append-only');
CREATE TRIGGER credit_entry_is_never_deleted AFTER DELETE ON credit_entry
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION expect_closed();

-- What a walk adds up of an account, for the month that it closes.
ALTER TABLE audit_balance ADD COLUMN received    bigint NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN spent       bigint NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN spend_count bigint NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN first_entry bigint NOT NULL DEFAULT 0;
ALTER TABLE audit_balance ADD COLUMN last_entry  bigint NOT NULL DEFAULT 0;

-- A walk goes through more tables, so that another one begins.
ALTER TABLE audit_walk DROP CONSTRAINT audit_walk_stage_check;
ALTER TABLE audit_walk ADD COLUMN summed    bigint NOT NULL DEFAULT 0;   -- is `entry`, unless an older version has walked
ALTER TABLE audit_walk ADD COLUMN month     bigint NOT NULL DEFAULT 0;   -- that is closed, or compared
ALTER TABLE audit_walk ADD COLUMN hash      bytea  NOT NULL DEFAULT '';  -- of its rows so far
ALTER TABLE audit_walk ADD COLUMN forgotten bigint NOT NULL DEFAULT 0;   -- spends up to this entry are deleted
ALTER TABLE audit_walk ADD COLUMN checked   bigint NOT NULL DEFAULT 0;   -- up to this entry audits have looked at what is new
UPDATE audit_walk SET stage = 'finished';

-- Credits that an account got by anything but spends: the journal, added up as far as the mark.
CREATE TABLE credit_received (
    account bigint PRIMARY KEY REFERENCES credit_account,
    credits bigint NOT NULL
);
CREATE TABLE credit_received_mark (
    id    bigint PRIMARY KEY CHECK (id = 1),
    entry bigint NOT NULL   -- the last that is added up
);
INSERT INTO credit_received_mark VALUES (1, 0);
