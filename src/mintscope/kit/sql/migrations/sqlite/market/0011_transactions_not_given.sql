-- How many transactions of a joined past its node listed and never gave.
ALTER TABLE history_job ADD COLUMN missing INTEGER NOT NULL DEFAULT 0;
