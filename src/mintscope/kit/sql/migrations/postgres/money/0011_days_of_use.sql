-- least: 1
-- Credits that requests took of each account on each day (UTC, since 1970-01-01), less what was given
-- back: the journal, added up as far as the mark.
CREATE TABLE credit_day (
    account bigint NOT NULL REFERENCES credit_account,
    day     bigint NOT NULL,
    credits bigint NOT NULL,
    PRIMARY KEY (account, day)
);

CREATE TABLE credit_day_mark (
    id    bigint PRIMARY KEY CHECK (id = 1),
    entry bigint NOT NULL   -- the last that is added up
);
INSERT INTO credit_day_mark VALUES (1, 0);
