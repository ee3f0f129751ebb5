-- What was seen and not read, by the hour of the chain: a day of them, so many kinds an hour.
CREATE TABLE not_read (
    hour      INTEGER NOT NULL,                  -- Unix time / 3600
    program   TEXT NOT NULL,                     -- its name; the address of one that is not listed
    reason    TEXT NOT NULL,
    head      TEXT NOT NULL,                     -- first bytes of the instruction, hex; or ''
    time      INTEGER NOT NULL,                  -- of the newest
    count     INTEGER NOT NULL,
    volume    INTEGER NOT NULL,                  -- about so many micro-USD
    signature TEXT,                              -- the newest of them
    PRIMARY KEY (hour, program, reason, head)
) STRICT, WITHOUT ROWID;
