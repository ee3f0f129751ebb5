-- least: 40
-- The list of all tokens as api processes keep it in memory, so that one that starts reads it in a
-- few pieces.  The newest whole one counts; of another, all but its number may be missing.
CREATE TABLE list_snapshot (
    number      bigint PRIMARY KEY,
    begun_at    bigint NOT NULL,                 -- Unix time in ms
    form        text,                            -- how its pieces are written
    folded_seq  bigint,                          -- the event up to which the list had come
    piece_count bigint                           -- NULL: it is not whole
);
CREATE TABLE list_snapshot_piece (
    snapshot bigint NOT NULL,
    place    bigint NOT NULL,
    content  bytea NOT NULL,
    PRIMARY KEY (snapshot, place)
);
-- It is compressed already.
ALTER TABLE list_snapshot_piece ALTER COLUMN content SET STORAGE EXTERNAL;
