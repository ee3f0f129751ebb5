-- Of the chain the log was read from; NULL until a node has told it.
ALTER TABLE progress ADD COLUMN genesis_hash TEXT;

-- By an operator: no rule follows it again until an operator does.
ALTER TABLE mint ADD COLUMN is_removed INTEGER NOT NULL DEFAULT 0;
