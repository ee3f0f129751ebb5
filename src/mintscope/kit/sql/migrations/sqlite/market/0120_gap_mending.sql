-- What ingest notes of the gaps that it mends by itself.  Times are Unix milliseconds; next_at is
-- NULL until ingest has seen the gap, given_up_at while it is tried.
ALTER TABLE gap ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0);
ALTER TABLE gap ADD COLUMN next_at INTEGER;
ALTER TABLE gap ADD COLUMN given_up_at INTEGER;
ALTER TABLE gap ADD COLUMN words TEXT NOT NULL DEFAULT '';

-- Requests that attempts took of a UTC day, counted since 1970-01-01.
CREATE TABLE gap_calls (
    day   INTEGER PRIMARY KEY,
    calls INTEGER NOT NULL CHECK (calls >= 0)
) STRICT;
