-- least: 2
-- What the swaps of a row were on chain, in their order; NULL: logged before.
ALTER TABLE swap ADD COLUMN details bytea;
ALTER TABLE history_swap ADD COLUMN details bytea;
