-- least: 1
-- Which api process took a batch, and when the database last heard of each: what one that died did
-- not answer is given back.  A batch is removed once it was answered.
ALTER TABLE credit_batch ADD COLUMN writer bigint;
CREATE TABLE credit_writer (
    id      bigint PRIMARY KEY,
    since   bigint NOT NULL,    -- heard of without a gap
    seen_at bigint NOT NULL
);
