-- Which pool decides the price of a mint after these swaps, beside those of the slot; NULL where
-- they set no price, and in logs of before.
ALTER TABLE swap ADD COLUMN deciding BLOB;

-- The same as of the newest swaps of a mint that are no longer kept.
CREATE TABLE deciding_pool (
    mint     INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    deciding BLOB NOT NULL
) STRICT;
