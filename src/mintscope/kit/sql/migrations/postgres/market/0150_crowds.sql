-- least: 130
-- The traders of a mint in the open span of five minutes; NULL: none since this version.
ALTER TABLE state ADD COLUMN traders bytea;

-- The traders of a mint in each span of five minutes that has ended, for a day.
CREATE TABLE crowd (
    mint    bigint NOT NULL,
    bucket  bigint NOT NULL,
    swaps   bigint NOT NULL,
    traders bytea NOT NULL,
    PRIMARY KEY (mint, bucket)
);
