-- least: 6
-- What was read and what was missed of the calls that exchanged tokens, by the hour of the chain:
-- a week of them, so many programs an hour.
CREATE TABLE coverage (
    hour    bigint NOT NULL,                     -- Unix time / 3600
    program text COLLATE "C" NOT NULL,           -- its name; the address of one that is not listed
    outcome text COLLATE "C" NOT NULL,           -- read, unlisted, or why it was missed
    calls   bigint NOT NULL,
    valued  bigint NOT NULL,                     -- those of them whose volume is known
    volume  bigint NOT NULL,                     -- micro-USD
    PRIMARY KEY (hour, program, outcome)
) WITH (fillfactor = 50);

CREATE TABLE coverage_slots (
    hour       bigint PRIMARY KEY,
    first_slot bigint NOT NULL,                  -- the first block of the hour
    blocks     bigint NOT NULL,                  -- that live
    skipped    bigint NOT NULL                   -- slots that they prove to hold no block
) WITH (fillfactor = 50);

-- Of the mints of which calls were missed, of the newest hours.
CREATE TABLE coverage_mint (
    hour   bigint NOT NULL,
    mint   text COLLATE "C" NOT NULL,            -- an address: it may not be followed; or other
    calls  bigint NOT NULL,
    valued bigint NOT NULL,
    volume bigint NOT NULL,
    PRIMARY KEY (hour, mint)
) WITH (fillfactor = 50);
