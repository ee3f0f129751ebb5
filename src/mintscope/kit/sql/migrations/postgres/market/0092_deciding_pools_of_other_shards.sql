-- least: 91
-- Which pools decide for mints whose swaps another shard logs: prices may rest on theirs.
CREATE TABLE other_deciding (
    seq      bigint NOT NULL,
    address  text NOT NULL,
    deciding bytea NOT NULL,
    PRIMARY KEY (seq, address)
);
-- The newest of those that the log does not keep any more, and the day of its slot.
CREATE TABLE other_deciding_kept (
    address  text PRIMARY KEY,
    deciding bytea NOT NULL,
    day      bigint NOT NULL
);
CREATE INDEX other_deciding_kept_by_day ON other_deciding_kept (day);
