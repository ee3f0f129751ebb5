-- Candles in SOL, exact where all their swaps were folded since; NULL: older, or imported.
ALTER TABLE candle ADD COLUMN open_sol REAL;
ALTER TABLE candle ADD COLUMN high_sol REAL;
ALTER TABLE candle ADD COLUMN low_sol REAL;
ALTER TABLE candle ADD COLUMN close_sol REAL;

-- The newest candles of a mint in SOL, beside its state.
ALTER TABLE state ADD COLUMN in_sol BLOB;
ALTER TABLE history_job ADD COLUMN in_sol BLOB;

-- Beside history_candle, for code of before takes every column of that one.
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

-- What the candles before some of those that are kept left behind: a series begins there.
CREATE TABLE waypoint (
    mint      INTEGER NOT NULL REFERENCES mint ON DELETE CASCADE,
    timeframe TEXT NOT NULL,
    bucket    INTEGER NOT NULL,
    closed    INTEGER NOT NULL,           -- candles before it
    acc       BLOB NOT NULL,           -- floats of 64 bits, little-endian
    PRIMARY KEY (mint, timeframe, bucket)
) STRICT, WITHOUT ROWID;
