-- What was bought and sold of a mint in a slot, beside its swaps: loading a mint reads the index.
ALTER TABLE swap ADD COLUMN bought INTEGER NOT NULL DEFAULT 0;
ALTER TABLE swap ADD COLUMN sold   INTEGER NOT NULL DEFAULT 0;
UPDATE swap SET bought = volume_1(swaps, 1), sold = volume_1(swaps, 0);
DROP INDEX swap_by_mint;
CREATE INDEX swap_by_mint ON swap (mint, seq, bought, sold);
