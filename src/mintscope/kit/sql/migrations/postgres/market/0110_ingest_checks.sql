-- least: 40
-- What ingest says of its checks that fail, so that every api can show it.
CREATE TABLE ingest_check (
    name  text PRIMARY KEY,
    said  text NOT NULL,
    since bigint NOT NULL   -- Unix time in milliseconds
);
