-- What the swaps of a row were on chain, in their order; NULL: logged before.
ALTER TABLE swap ADD COLUMN details BLOB;
ALTER TABLE history_swap ADD COLUMN details BLOB;
