-- Times are unix seconds, prices per whole token, volumes micro-USD.

-- One row: where the log and the finalized fold stand.
CREATE TABLE progress (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    finalized_slot INTEGER,                      -- newest slot that cannot die
    folded_seq     INTEGER NOT NULL DEFAULT 0,   -- append event of the checkpoint
    folded_slot    INTEGER,                      -- the checkpoint
    folded_day     INTEGER,                      -- its UTC day
    trimmed_seq    INTEGER NOT NULL DEFAULT 0,   -- newest event no longer kept
    follows_files  INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO progress (id) VALUES (1);

CREATE TABLE mint (
    id         INTEGER PRIMARY KEY,
    address    TEXT NOT NULL UNIQUE,
    since_slot INTEGER,                          -- swaps of later slots count; NULL: not tracked
    since_time INTEGER,                          -- of that slot
    is_listed  INTEGER NOT NULL DEFAULT 0        -- by an operator: no rule drops it
) STRICT;
CREATE INDEX mint_tracked ON mint (since_slot) WHERE since_slot IS NOT NULL;

-- The log.  Rows are added at its end and trimmed from its beginning, never changed.
CREATE TABLE event (
    seq   INTEGER PRIMARY KEY,
    kind  TEXT NOT NULL CHECK (kind IN ('append', 'finalize', 'retract', 'track', 'untrack')),
    slot  INTEGER,                               -- append, finalize, retract
    mints BLOB                                   -- retract: all touched; track, untrack: the one
) STRICT;

-- What an append event says of its slot.
CREATE TABLE header (
    seq          INTEGER PRIMARY KEY REFERENCES event,
    slot         INTEGER NOT NULL,
    parent_slot  INTEGER NOT NULL,
    blockhash    TEXT NOT NULL,
    time         INTEGER NOT NULL,
    sol_usd      REAL,
    sol_usd_time INTEGER,
    samples      BLOB NOT NULL,
    is_dead      INTEGER NOT NULL DEFAULT 0      -- a retract event followed
) STRICT;
CREATE UNIQUE INDEX header_alive ON header (slot) WHERE NOT is_dead;
CREATE INDEX header_dead ON header (seq) WHERE is_dead;

-- The swaps of an append event, one row a mint, so that one mint's are found without the others'.
CREATE TABLE swap (
    seq   INTEGER NOT NULL REFERENCES event,
    mint  INTEGER NOT NULL REFERENCES mint,
    swaps BLOB NOT NULL,
    PRIMARY KEY (seq, mint)
) STRICT, WITHOUT ROWID;
CREATE INDEX swap_by_mint ON swap (mint, seq);

-- The finalized fold.  These rows and progress.folded_seq change in one transaction.
CREATE TABLE state (
    mint      INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    state     BLOB NOT NULL,
    last_swap INTEGER NOT NULL                   -- time of the newest folded swap
) STRICT;

-- What a mint traded, kept while mints are followed by a floor.
CREATE TABLE activity (
    mint       INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    day        INTEGER NOT NULL,
    swaps      INTEGER NOT NULL,
    volume     INTEGER NOT NULL,
    lively_day INTEGER
) STRICT;

-- A minute with volume but no price has count 0 and no prices.
CREATE TABLE candle (
    mint        INTEGER NOT NULL REFERENCES mint ON DELETE CASCADE,
    timeframe   TEXT NOT NULL CHECK (timeframe IN ('m1', 'm5', 'm15', 'h1')),
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

-- Slots no source could deliver.
CREATE TABLE gap (
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL CHECK (last >= first),
    reason TEXT NOT NULL,
    PRIMARY KEY (first, last)
) STRICT, WITHOUT ROWID;

-- Transactions that could not be read, the newest ones.
CREATE TABLE quarantine (
    id        INTEGER PRIMARY KEY,
    slot      INTEGER NOT NULL,
    signature TEXT,                              -- NULL: not even that could be read
    program   TEXT NOT NULL,
    reason    TEXT NOT NULL
) STRICT;
