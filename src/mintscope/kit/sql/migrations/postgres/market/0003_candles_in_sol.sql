-- least: 2
-- Candles in SOL, exact where all their swaps were folded since; NULL: older, or imported.
ALTER TABLE candle ADD COLUMN open_sol double precision;
ALTER TABLE candle ADD COLUMN high_sol double precision;
ALTER TABLE candle ADD COLUMN low_sol double precision;
ALTER TABLE candle ADD COLUMN close_sol double precision;

-- The newest candles of a mint in SOL, beside its state.
ALTER TABLE state ADD COLUMN in_sol bytea;
ALTER TABLE history_job ADD COLUMN in_sol bytea;

-- Beside history_candle, for code of before takes every column of that one.
CREATE TABLE history_candle_in_sol (
    mint      bigint NOT NULL REFERENCES history_job ON DELETE CASCADE,
    timeframe text COLLATE "C" NOT NULL,
    bucket    bigint NOT NULL,
    open_sol  double precision,
    high_sol  double precision,
    low_sol   double precision,
    close_sol double precision,
    PRIMARY KEY (mint, timeframe, bucket)
);

-- What the candles before some of those that are kept left behind: a series begins there.
CREATE TABLE waypoint (
    mint      bigint NOT NULL REFERENCES mint ON DELETE CASCADE,
    timeframe text COLLATE "C" NOT NULL,
    bucket    bigint NOT NULL,
    closed    bigint NOT NULL,           -- candles before it
    acc       bytea NOT NULL,           -- floats of 64 bits, little-endian
    PRIMARY KEY (mint, timeframe, bucket)
);
