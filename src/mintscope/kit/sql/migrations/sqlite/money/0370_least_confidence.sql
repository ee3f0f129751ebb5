-- Rules look at reports whose price is at least as good; those of before at every report.
ALTER TABLE signal ADD COLUMN least_confidence TEXT NOT NULL DEFAULT 'low';
