-- The pools of a mint, as the fold has booked them; NULL: none since this version.
ALTER TABLE state ADD COLUMN pools BLOB;

-- Candles of five minutes of the pools of a mint, for two days; pool: the number of its address.
-- One with volume but no price has no prices.
CREATE TABLE pool_candle (
    mint        INTEGER NOT NULL,
    bucket      INTEGER NOT NULL,
    pool        INTEGER NOT NULL,
    open        REAL,
    high        REAL,
    low         REAL,
    close       REAL,
    buy_volume  INTEGER NOT NULL,
    sell_volume INTEGER NOT NULL,
    swaps       INTEGER NOT NULL,
    PRIMARY KEY (mint, bucket, pool)
) STRICT, WITHOUT ROWID;
