-- Credits that requests took of each account on each day (UTC, since 1970-01-01), less what was given
-- back: the journal, added up as far as the mark.
CREATE TABLE credit_day (
    account INTEGER NOT NULL REFERENCES credit_account,
    day     INTEGER NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE credit_day_mark (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    entry INTEGER NOT NULL   -- the last that is added up
) STRICT;
INSERT INTO credit_day_mark VALUES (1, 0);
