-- 1: it is followed no more, and candles of it wait to be deleted, some at a time.
ALTER TABLE mint ADD COLUMN is_uncleared bigint NOT NULL DEFAULT 0 CHECK (is_uncleared IN (0, 1));
CREATE INDEX mint_uncleared ON mint (id) WHERE is_uncleared = 1;
