-- What one commit of debits took, so that one whose answer was lost can be looked up by its number.
CREATE TABLE credit_batch (
    id    bigint PRIMARY KEY,
    at    bigint NOT NULL,
    spent text                  -- JSON: [account, delta, balance] each; NULL: it took nothing
);
CREATE INDEX credit_batch_at ON credit_batch (at);
