-- The list of all tokens as api processes keep it in memory, so that one that starts reads it in a
-- few pieces.  The newest whole one counts; of another, all but its number may be missing.
CREATE TABLE list_snapshot (
    number      INTEGER PRIMARY KEY,
    begun_at    INTEGER NOT NULL,                -- Unix time in ms
    form        TEXT,                            -- how its pieces are written
    folded_seq  INTEGER,                         -- the event up to which the list had come
    piece_count INTEGER                          -- NULL: it is not whole
) STRICT;
CREATE TABLE list_snapshot_piece (
    snapshot INTEGER NOT NULL,
    place    INTEGER NOT NULL,
    content  BLOB NOT NULL,
    PRIMARY KEY (snapshot, place)
) STRICT;
