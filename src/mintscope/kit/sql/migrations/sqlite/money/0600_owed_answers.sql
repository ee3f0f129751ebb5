-- What was taken for an answer that was not sent, while other requests with its name may get it.
-- The columns have a meaning only if `owed_at` is `at`; otherwise nothing is owed.
ALTER TABLE kept_answer ADD COLUMN owed_at INTEGER;
ALTER TABLE kept_answer ADD COLUMN owed INTEGER;
ALTER TABLE kept_answer ADD COLUMN api_key INTEGER;
ALTER TABLE kept_answer ADD COLUMN month INTEGER;
ALTER TABLE kept_answer ADD COLUMN endpoint INTEGER;
