-- least: 120
-- The pools of a mint, as the fold has booked them; NULL: none since this version.
ALTER TABLE state ADD COLUMN pools bytea;

-- Candles of five minutes of the pools of a mint, for two days; pool: the number of its address.
-- One with volume but no price has no prices.
CREATE TABLE pool_candle (
    mint        bigint NOT NULL,
    bucket      bigint NOT NULL,
    pool        bigint NOT NULL,
    open        double precision,
    high        double precision,
    low         double precision,
    close       double precision,
    buy_volume  bigint NOT NULL,
    sell_volume bigint NOT NULL,
    swaps       bigint NOT NULL,
    PRIMARY KEY (mint, bucket, pool)
);
