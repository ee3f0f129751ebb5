-- Who gave a candle that was imported, and its volume in micro-USD, whose sides are not known;
-- NULL: our own, made of swaps.
ALTER TABLE candle ADD COLUMN provider TEXT;
ALTER TABLE candle ADD COLUMN provider_volume INTEGER;

-- Imported candles on their way into the market; ingest takes those before our own first one.
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
