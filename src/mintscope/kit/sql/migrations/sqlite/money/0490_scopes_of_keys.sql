-- What the holder of an issued key asks for, beside what it has, and what for.
ALTER TABLE application ADD COLUMN asked_at INTEGER;            -- NULL: nothing to decide about
ALTER TABLE application ADD COLUMN asked_why TEXT NOT NULL DEFAULT '';
