-- Names of answers that were paid for: for ten minutes they are given again without a credit.
CREATE TABLE kept_answer (
    name    TEXT PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES credit_account,
    at      INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0                 -- if any, nothing is given back for it
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_answer_at ON kept_answer (at);
