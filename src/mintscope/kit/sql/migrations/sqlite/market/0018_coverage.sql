-- What was read and what was missed of the calls that exchanged tokens, by the hour of the chain:
-- a week of them, so many programs an hour.
CREATE TABLE coverage (
    hour    INTEGER NOT NULL,                    -- Unix time / 3600
    program TEXT NOT NULL,                       -- its name; the address of one that is not listed
    outcome TEXT NOT NULL,                       -- read, unlisted, or why it was missed
    calls   INTEGER NOT NULL,
    valued  INTEGER NOT NULL,                    -- those of them whose volume is known
    volume  INTEGER NOT NULL,                    -- micro-USD
    PRIMARY KEY (hour, program, outcome)
) STRICT, WITHOUT ROWID;

CREATE TABLE coverage_slots (
    hour       INTEGER PRIMARY KEY,
    first_slot INTEGER NOT NULL,                 -- the first block of the hour
    blocks     INTEGER NOT NULL,                 -- that live
    skipped    INTEGER NOT NULL                  -- slots that they prove to hold no block
) STRICT;

-- Of the mints of which calls were missed, of the newest hours.
CREATE TABLE coverage_mint (
    hour   INTEGER NOT NULL,
    mint   TEXT NOT NULL,                        -- an address: it may not be followed; or other
    calls  INTEGER NOT NULL,
    valued INTEGER NOT NULL,
    volume INTEGER NOT NULL,
    PRIMARY KEY (hour, mint)
) STRICT, WITHOUT ROWID;
