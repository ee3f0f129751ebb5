-- When the tokens that traded in a gap were read anew, Unix milliseconds; NULL: it is open.
ALTER TABLE gap ADD COLUMN filled_at INTEGER;
