-- Payments on chain, and what each of them bought.
-- Times are Unix milliseconds, amounts atoms of the payment token.

CREATE TABLE payment (
    id                INTEGER PRIMARY KEY,
    message_hash      BLOB    NOT NULL UNIQUE CHECK (length(message_hash) = 32),
    signature         TEXT    NOT NULL UNIQUE,
    payer             TEXT    NOT NULL,
    address           TEXT    NOT NULL,           -- the client's, for its failure budget
    resource          TEXT    NOT NULL,
    amount            INTEGER NOT NULL CHECK (amount > 0),
    credits           INTEGER NOT NULL CHECK (credits >= 0),      -- 0: a report
    body              BLOB,                       -- of a report, until it is forgotten
    token_hash        BLOB    UNIQUE CHECK (length(token_hash) = 32),
    hint              TEXT,
    account           INTEGER REFERENCES credit_account,  -- of a new token: once it is issued
    holder            INTEGER REFERENCES credit_account,  -- where its credits are now
    rotated_at        INTEGER,
    entry             INTEGER UNIQUE REFERENCES credit_entry,     -- which handed the credits out
    frozen            INTEGER NOT NULL DEFAULT 0 CHECK (frozen >= 0),  -- credits taken back
    key_hash          BLOB    NOT NULL CHECK (length(key_hash) = 32),
    fee_lamports      INTEGER NOT NULL,
    last_valid_height INTEGER NOT NULL,
    begun_at          INTEGER NOT NULL,
    lease_until       INTEGER NOT NULL,
    state             TEXT    NOT NULL CHECK (state IN ('pending', 'issued', 'failed', 'frozen')),
    paid              INTEGER NOT NULL CHECK (state <> 'issued' OR paid >= amount),
    reason            TEXT             CHECK ((reason IS NULL) = (state IN ('pending', 'issued'))),
    final             INTEGER NOT NULL CHECK (final IN (0, 1) AND (state <> 'pending' OR final = 0)),
    resolved          INTEGER NOT NULL DEFAULT 0, -- counts changes of state; 0: none yet
    resolved_at       INTEGER,
    CHECK ((token_hash IS NULL) = (hint IS NULL)),
    CHECK (credits = 0 OR body IS NULL),
    CHECK (credits = 0 OR token_hash IS NOT NULL OR account IS NOT NULL),
    CHECK (state <> 'issued' OR credits = 0 OR entry IS NOT NULL)
) STRICT;

CREATE INDEX payment_open ON payment (lease_until) WHERE final = 0;
CREATE INDEX payment_pending ON payment (payer, amount, fee_lamports) WHERE state = 'pending';
CREATE INDEX payment_reverted ON payment (resolved_at, payer, address, fee_lamports)
 WHERE reason = 'transaction_failed';
CREATE INDEX payment_resolved ON payment (resolved, payer, amount);
CREATE INDEX payment_key ON payment (key_hash);
CREATE INDEX payment_begun ON payment (begun_at);
CREATE INDEX payment_holder ON payment (holder) WHERE holder IS NOT NULL;

CREATE TRIGGER payment_is_never_deleted BEFORE DELETE ON payment BEGIN
    SELECT raise(ABORT, 'payments are never forgotten');
END;

-- While there is a row, nothing is sold.  Credits go on working.
CREATE TABLE sales_stop (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    at  INTEGER NOT NULL,
    why TEXT    NOT NULL
) STRICT;

-- How far the treasury's history has been compared with the payments above.
CREATE TABLE treasury_mark (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    signature TEXT NOT NULL
) STRICT;
