-- What ingest says of its checks that fail, so that every api can show it.
CREATE TABLE ingest_check (
    name  TEXT PRIMARY KEY,
    said  TEXT NOT NULL,
    since INTEGER NOT NULL   -- Unix time in milliseconds
) STRICT;
