-- The tables of 24 November 2026, in which earlier migrations are joined.
-- Times are Unix seconds, prices per whole token, volumes micro-USD.

-- One row: the progress of the log and of the finalized fold.
CREATE TABLE progress (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    finalized_slot INTEGER,                      -- newest slot that cannot die
    folded_seq     INTEGER NOT NULL DEFAULT 0,   -- append event of the checkpoint
    folded_slot    INTEGER,                      -- the checkpoint
    folded_day     INTEGER,                      -- its UTC day
    trimmed_seq    INTEGER NOT NULL DEFAULT 0,   -- newest event that the log no longer has
    follows_files  INTEGER NOT NULL DEFAULT 0,
    genesis_hash   TEXT                          -- of the chain of the log; NULL: not known yet
) STRICT;
INSERT INTO progress (id) VALUES (1);

CREATE TABLE mint (
    id         INTEGER PRIMARY KEY,
    address    TEXT NOT NULL UNIQUE,
    since_slot INTEGER,                          -- swaps of later slots count; NULL: not tracked
    since_time INTEGER,                          -- of that slot
    is_listed  INTEGER NOT NULL DEFAULT 0,       -- by an operator: no rule drops it
    is_removed INTEGER NOT NULL DEFAULT 0        -- by an operator: no rule tracks it again
) STRICT;
CREATE INDEX mint_tracked ON mint (since_slot) WHERE since_slot IS NOT NULL;

-- The log.  Rows are added at its end and deleted from its beginning, never changed.
CREATE TABLE event (
    seq   INTEGER PRIMARY KEY,
    kind  TEXT NOT NULL CHECK (kind IN ('append', 'finalize', 'retract', 'track', 'untrack')),
    slot  INTEGER,                               -- append, finalize, retract
    mints BLOB                                   -- retract: all touched; track, untrack: the one
) STRICT;

-- The slot of an append event.
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
CREATE UNIQUE INDEX header_alive ON header (slot) WHERE is_dead = 0;
CREATE INDEX header_dead ON header (seq) WHERE is_dead = 1;

-- The swaps of an append event, one row for each mint, so that those of one mint are found
-- without the others.  bought and sold: the volumes, so that loading a mint reads only the
-- index.
CREATE TABLE swap (
    seq      INTEGER NOT NULL REFERENCES event,
    mint     INTEGER NOT NULL REFERENCES mint,
    swaps    BLOB NOT NULL,
    deciding BLOB,                               -- price pools after them; NULL: they set no price
    bought   INTEGER NOT NULL DEFAULT 0,
    sold     INTEGER NOT NULL DEFAULT 0,
    details  BLOB,                               -- of the swaps on chain, in order; NULL: older
    PRIMARY KEY (seq, mint)
) STRICT, WITHOUT ROWID;
CREATE INDEX swap_by_mint ON swap (mint, seq, bought, sold);

-- The price pools of a mint after its newest swap that the log no longer has.
CREATE TABLE deciding_pool (
    mint     INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    deciding BLOB NOT NULL
) STRICT;

-- The finalized fold.  These rows and progress.folded_seq change in one transaction.
CREATE TABLE state (
    mint      INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    state     BLOB NOT NULL,
    last_swap INTEGER NOT NULL,                  -- time of the newest folded swap
    in_sol    BLOB                               -- the newest candles in SOL
) STRICT;

-- What a mint traded, stored while mints are tracked by their volume.
CREATE TABLE activity (
    mint       INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    day        INTEGER NOT NULL,
    swaps      INTEGER NOT NULL,
    volume     INTEGER NOT NULL,
    lively_day INTEGER
) STRICT;

-- A minute with volume but no price has count 0 and no prices.  Prices in SOL are exact if all
-- swaps were folded since they are stored; NULL: older, or imported.
CREATE TABLE candle (
    mint            INTEGER NOT NULL REFERENCES mint ON DELETE CASCADE,
    timeframe       TEXT NOT NULL CHECK (timeframe IN ('m1', 'm5', 'm15', 'h1')),
    bucket          INTEGER NOT NULL,
    open            REAL,
    high            REAL,
    low             REAL,
    close           REAL,
    buy_volume      INTEGER NOT NULL,
    sell_volume     INTEGER NOT NULL,
    count           INTEGER NOT NULL,
    provider        TEXT,                        -- of an imported candle; NULL: made of swaps
    provider_volume INTEGER,                     -- micro-USD, purchases and sales together
    open_sol        REAL,
    high_sol        REAL,
    low_sol         REAL,
    close_sol       REAL,
    PRIMARY KEY (mint, timeframe, bucket)
) STRICT, WITHOUT ROWID;

-- Averages before some of the stored candles, from which a series can begin.
CREATE TABLE waypoint (
    mint      INTEGER NOT NULL REFERENCES mint ON DELETE CASCADE,
    timeframe TEXT NOT NULL,
    bucket    INTEGER NOT NULL,
    closed    INTEGER NOT NULL,           -- candles before it
    acc       BLOB NOT NULL,              -- floats of 64 bits, little-endian
    PRIMARY KEY (mint, timeframe, bucket)
) STRICT, WITHOUT ROWID;

-- Slots that no source could deliver.
CREATE TABLE gap (
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL CHECK (last >= first),
    reason    TEXT NOT NULL,
    filled_at INTEGER,                           -- Unix milliseconds; NULL: not yet
    PRIMARY KEY (first, last)
) STRICT, WITHOUT ROWID;

-- The newest transactions that could not be decoded.
CREATE TABLE quarantine (
    id        INTEGER PRIMARY KEY,
    slot      INTEGER NOT NULL,
    signature TEXT,                              -- NULL: it could not be read either
    program   TEXT NOT NULL,
    reason    TEXT NOT NULL
) STRICT;

-- The mint account as a node last returned it, separate from what is counted.
CREATE TABLE mint_fact (
    mint       INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    slot       INTEGER NOT NULL,                 -- at which the account was read
    read_at_ms INTEGER NOT NULL,
    facts      BLOB                              -- JSON of MintFacts; NULL: it was not a mint
) STRICT;
CREATE INDEX mint_fact_by_time ON mint_fact (read_at_ms);

-- Instructions that were seen but not decoded, by the hour of the chain: a day of them, by kind.
CREATE TABLE not_read (
    hour      INTEGER NOT NULL,                  -- Unix time / 3600
    program   TEXT NOT NULL,                     -- its name; the address of one that is not listed
    reason    TEXT NOT NULL,
    head      TEXT NOT NULL,                     -- first bytes of the instruction, hex; or ''
    time      INTEGER NOT NULL,                  -- of the newest
    count     INTEGER NOT NULL,
    volume    INTEGER NOT NULL,                  -- estimated, micro-USD
    signature TEXT,                              -- the newest of them
    PRIMARY KEY (hour, program, reason, head)
) STRICT, WITHOUT ROWID;

-- Backfills: the history of a mint that a command reads and ingest joins.
CREATE TABLE history_job (
    mint       INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    from_time  INTEGER NOT NULL,                 -- older swaps are omitted
    stage      TEXT NOT NULL CHECK (stage IN ('reading', 'ready', 'joined')),
    round_slot INTEGER,                          -- end of the current round; NULL: no round
    slot       INTEGER,                          -- end of the candles below
    time       INTEGER,                          -- effective, of the newest swap's slot
    since_slot INTEGER,                          -- before the oldest swap
    state      BLOB,                             -- as the table state has it
    last_swap  INTEGER,
    deciding   BLOB,                             -- price pools after it
    missing    INTEGER NOT NULL DEFAULT 0,       -- listed transactions that the node never returned
    in_sol     BLOB
) STRICT;

-- The accounts whose transactions are listed, newest first, and the progress of the listing.
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
    address   TEXT NOT NULL,                     -- whose list has it
    line      INTEGER NOT NULL,                  -- in that list: later lines are older
    time      INTEGER,                           -- of its block; NULL: unknown to the node
    position  INTEGER NOT NULL DEFAULT 0,        -- in its block, if needed for the order
    tries     INTEGER NOT NULL DEFAULT 0,
    swaps     BLOB,                              -- NULL: not read yet
    PRIMARY KEY (mint, slot, signature)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_unread ON history_transaction (mint, slot) WHERE swaps IS NULL;

-- Candles of the transactions of a backfill.
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

-- Their prices in SOL.
CREATE TABLE history_candle_in_sol (
    mint      INTEGER NOT NULL REFERENCES history_job ON DELETE CASCADE,
    timeframe TEXT NOT NULL,
    bucket    INTEGER NOT NULL,
    open_sol  REAL,
    high_sol  REAL,
    low_sol   REAL,
    close_sol REAL,
    PRIMARY KEY (mint, timeframe, bucket)
) STRICT, WITHOUT ROWID;

-- The newest swaps of a backfill: those that the log would have if the mint had been tracked.
CREATE TABLE history_swap (
    mint     INTEGER NOT NULL REFERENCES history_job ON DELETE CASCADE,
    slot     INTEGER NOT NULL,
    swaps    BLOB NOT NULL,
    deciding BLOB,
    details  BLOB,
    PRIMARY KEY (mint, slot)
) STRICT, WITHOUT ROWID;

-- Imported candles that ingest will join; it takes those before our own first candle.
CREATE TABLE import_candle (
    mint      INTEGER NOT NULL REFERENCES mint ON DELETE CASCADE,
    timeframe TEXT NOT NULL CHECK (timeframe IN ('m1', 'm5', 'm15', 'h1')),
    bucket    INTEGER NOT NULL,
    open      REAL NOT NULL,
    high      REAL NOT NULL,
    low       REAL NOT NULL,
    close     REAL NOT NULL,
    volume    INTEGER NOT NULL,
    provider  TEXT NOT NULL,
    PRIMARY KEY (mint, timeframe, bucket)
) STRICT, WITHOUT ROWID;

-- Backfills that administrators request on a page, and their progress: ingest runs them.
CREATE TABLE history_ask (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    mint         TEXT NOT NULL,                  -- an address: the mint may no longer be tracked
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
    words        TEXT NOT NULL DEFAULT '',       -- for people: the error
    ended_at     INTEGER                         -- Unix time in ms; NULL: it is open
) STRICT;
CREATE UNIQUE INDEX history_ask_open ON history_ask (mint) WHERE ended_at IS NULL;
