-- least: 1
-- How often a signal has fired in the hour that began at hour_since, Unix milliseconds.
ALTER TABLE signal ADD COLUMN hour_since bigint;
ALTER TABLE signal ADD COLUMN hour_count bigint NOT NULL DEFAULT 0;
