-- least: 1
-- Minutes of streams that were paid for in advance and are under way: a row is removed once
-- something was sent, or with the reversal that gives the credits back.
CREATE TABLE stream_minute (
    id      bigint PRIMARY KEY,               -- drawn by the replica that took it
    writer  bigint NOT NULL,                  -- that replica, as in credit_writer
    at      bigint NOT NULL,
    account bigint NOT NULL REFERENCES credit_account,
    credits bigint NOT NULL CHECK (credits > 0),
    api_key bigint REFERENCES api_key,
    month   bigint CHECK ((month IS NULL) = (api_key IS NULL))
);

-- What a batch of such debits took, as `debit` returns it, to be looked up alone: they are given
-- back by their rows, so that `spent` is empty, for replicas that do not know them as well.
ALTER TABLE credit_batch ADD COLUMN begun text;
