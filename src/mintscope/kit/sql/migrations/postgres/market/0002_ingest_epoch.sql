-- One row: which ingest writes the market.  Each that takes over counts it up; who holds an older
-- one writes no more.
CREATE TABLE ingest_epoch (
    id    bigint PRIMARY KEY CHECK (id = 1),
    epoch bigint NOT NULL
);
INSERT INTO ingest_epoch VALUES (1, 0);
