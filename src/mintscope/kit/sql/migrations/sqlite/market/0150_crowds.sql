-- The traders of a mint in the open span of five minutes; NULL: none since this version.
ALTER TABLE state ADD COLUMN traders BLOB;

-- The traders of a mint in each span of five minutes that has ended, for a day.
CREATE TABLE crowd (
    mint    INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    swaps   INTEGER NOT NULL,
    traders BLOB NOT NULL,
    PRIMARY KEY (mint, bucket)
) STRICT, WITHOUT ROWID;
