-- Minutes of streams that were paid for in advance and are under way: a row is removed once
-- something was sent, or with the reversal that gives the credits back.
CREATE TABLE stream_minute (
    id      INTEGER PRIMARY KEY,               -- drawn by the process that took it
    writer  INTEGER NOT NULL,                  -- that process
    at      INTEGER NOT NULL,
    account INTEGER NOT NULL REFERENCES credit_account,
    credits INTEGER NOT NULL CHECK (credits > 0),
    api_key INTEGER REFERENCES api_key,
    month   INTEGER CHECK ((month IS NULL) = (api_key IS NULL))
) STRICT;
