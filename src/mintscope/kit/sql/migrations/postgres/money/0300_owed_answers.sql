-- least: 1
-- What was taken for an answer that was not sent, while other requests with its name may get it.
-- The columns have a meaning only if `owed_at` is `at`; otherwise nothing is owed.
ALTER TABLE kept_answer
    ADD COLUMN owed_at  bigint,
    ADD COLUMN owed     bigint,
    ADD COLUMN api_key  bigint,
    ADD COLUMN month    bigint,
    ADD COLUMN endpoint bigint;
