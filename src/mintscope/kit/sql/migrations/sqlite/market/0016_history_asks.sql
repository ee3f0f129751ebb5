-- Pasts that administrators ask for on a page, and what becomes of each: ingest reads them.
CREATE TABLE history_ask (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    mint         TEXT NOT NULL,                  -- an address: the mint may be followed no more
    from_time    INTEGER NOT NULL,
    asked_at     INTEGER NOT NULL,               -- Unix time in ms
    state        TEXT NOT NULL
                 CHECK (state IN ('asked', 'estimated', 'confirmed', 'reading', 'cancelling',
                                  'done', 'failed', 'cancelled')),
    transactions INTEGER,                        -- estimated, as calls and seconds
    calls        INTEGER,
    seconds      INTEGER,
    listed       INTEGER NOT NULL DEFAULT 0,
    read_count   INTEGER NOT NULL DEFAULT 0,     -- of those listed
    words        TEXT NOT NULL DEFAULT '',       -- for people: what is wrong
    ended_at     INTEGER                         -- Unix time in ms; NULL: it is open
) STRICT;
CREATE UNIQUE INDEX history_ask_open ON history_ask (mint) WHERE ended_at IS NULL;
