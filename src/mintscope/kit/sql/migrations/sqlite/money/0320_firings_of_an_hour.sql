-- How often a signal has fired in the hour that began at hour_since, Unix milliseconds.
ALTER TABLE signal ADD COLUMN hour_since INTEGER;
ALTER TABLE signal ADD COLUMN hour_count INTEGER NOT NULL DEFAULT 0;
