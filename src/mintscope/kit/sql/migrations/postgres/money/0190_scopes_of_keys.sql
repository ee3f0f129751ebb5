-- least: 1
-- What the holder of an issued key asks for, beside what it has, and what for.
ALTER TABLE application ADD COLUMN asked_at bigint;             -- NULL: nothing to decide about
ALTER TABLE application ADD COLUMN asked_why text NOT NULL DEFAULT '';
