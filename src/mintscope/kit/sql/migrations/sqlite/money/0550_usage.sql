-- The endpoint that a debit paid for: its number in credits/endpoints.py.  NULL: none is noted.
ALTER TABLE credit_entry ADD COLUMN endpoint INTEGER;
ALTER TABLE stream_minute ADD COLUMN endpoint INTEGER;

-- Requests of users that cost credits, and those credits less what was given back, by day (UTC,
-- since 1970-01-01), API key (0: none) and endpoint (0: none is noted): the journal, added up as
-- far as the mark.
CREATE TABLE usage_day (
    account  INTEGER NOT NULL REFERENCES credit_account,
    day      INTEGER NOT NULL,
    api_key  INTEGER NOT NULL,
    endpoint INTEGER NOT NULL,
    requests INTEGER NOT NULL CHECK (requests >= 0),
    credits  INTEGER NOT NULL,
    PRIMARY KEY (account, day, api_key, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_day_day ON usage_day (day);

CREATE TABLE usage_day_mark (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    entry INTEGER NOT NULL   -- the last that is added up
) STRICT;
INSERT INTO usage_day_mark VALUES (1, 0);
