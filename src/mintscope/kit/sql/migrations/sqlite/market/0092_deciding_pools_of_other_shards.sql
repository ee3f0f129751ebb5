-- Which pools decide for mints whose swaps another shard logs: prices may rest on theirs.
CREATE TABLE other_deciding (
    seq      INTEGER NOT NULL,
    address  TEXT NOT NULL,
    deciding BLOB NOT NULL,
    PRIMARY KEY (seq, address)
) STRICT, WITHOUT ROWID;
-- The newest of those that the log does not keep any more, and the day of its slot.
CREATE TABLE other_deciding_kept (
    address  TEXT PRIMARY KEY,
    deciding BLOB NOT NULL,
    day      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX other_deciding_kept_by_day ON other_deciding_kept (day);
