-- least: 91
-- What ingest notes of the gaps that it mends by itself.  Times are Unix milliseconds; next_at is
-- NULL until ingest has seen the gap, given_up_at while it is tried.
ALTER TABLE gap ADD COLUMN attempts bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0);
ALTER TABLE gap ADD COLUMN next_at bigint;
ALTER TABLE gap ADD COLUMN given_up_at bigint;
ALTER TABLE gap ADD COLUMN words text NOT NULL DEFAULT '';

-- Requests that attempts took of a UTC day, counted since 1970-01-01.
CREATE TABLE gap_calls (
    day   bigint PRIMARY KEY,
    calls bigint NOT NULL CHECK (calls >= 0)
);
