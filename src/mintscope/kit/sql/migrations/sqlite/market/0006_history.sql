-- The past of a mint on its way into the market, read by a command and joined by ingest.
CREATE TABLE history_job (
    mint       INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    from_time  INTEGER NOT NULL,                 -- older swaps are left out
    stage      TEXT NOT NULL CHECK (stage IN ('reading', 'ready', 'joined')),
    round_slot INTEGER,                          -- how far the present round reaches; NULL: no round
    slot       INTEGER,                          -- how far the candles below reach
    time       INTEGER,                          -- effective, of the newest swap's slot
    since_slot INTEGER,                          -- before the oldest swap
    state      BLOB,                             -- as the table state has it
    last_swap  INTEGER,
    deciding   BLOB                              -- which pool decides after it
) STRICT;

-- The accounts whose transactions are listed, newest first, and how far that has come.
CREATE TABLE history_address (
    mint        INTEGER NOT NULL REFERENCES history_job ON DELETE CASCADE,
    address     TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('pool', 'rate')),
    until       TEXT,                            -- newest signature of the rounds before
    top         TEXT,                            -- newest of this round
    before      TEXT,                            -- oldest listed in this round
    listed_slot INTEGER,                         -- the newest round that is listed
    lines       INTEGER NOT NULL DEFAULT 0,      -- listed so far
    PRIMARY KEY (mint, address)
) STRICT, WITHOUT ROWID;

CREATE TABLE history_transaction (
    mint      INTEGER NOT NULL REFERENCES history_job ON DELETE CASCADE,
    slot      INTEGER NOT NULL,
    signature TEXT NOT NULL,
    address   TEXT NOT NULL,                     -- that it was listed for
    line      INTEGER NOT NULL,                  -- in that list: later lines are older
    time      INTEGER,                           -- of its block; NULL: the node does not know
    position  INTEGER NOT NULL DEFAULT 0,        -- in its block, where that decides the order
    tries     INTEGER NOT NULL DEFAULT 0,
    swaps     BLOB,                              -- NULL: not read yet
    PRIMARY KEY (mint, slot, signature)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_unread ON history_transaction (mint, slot) WHERE swaps IS NULL;

-- What was folded of them.
CREATE TABLE history_candle (
    mint        INTEGER NOT NULL REFERENCES history_job ON DELETE CASCADE,
    timeframe   TEXT NOT NULL,
    bucket      INTEGER NOT NULL,
    open        REAL,
    high        REAL,
    low         REAL,
    close       REAL,
    buy_volume  INTEGER NOT NULL,
    sell_volume INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    PRIMARY KEY (mint, timeframe, bucket)
) STRICT, WITHOUT ROWID;

-- The newest swaps of them: what the log would hold had the mint been followed.
CREATE TABLE history_swap (
    mint     INTEGER NOT NULL REFERENCES history_job ON DELETE CASCADE,
    slot     INTEGER NOT NULL,
    swaps    BLOB NOT NULL,
    deciding BLOB,
    PRIMARY KEY (mint, slot)
) STRICT, WITHOUT ROWID;
