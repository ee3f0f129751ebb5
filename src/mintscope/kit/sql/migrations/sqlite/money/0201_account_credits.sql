-- Users hold credits, which their API keys spend.  Times are Unix milliseconds.

-- Whose account it is; NULL: that of a credit token.  What a user's has for a hash is none.
ALTER TABLE credit_account ADD COLUMN owner INTEGER REFERENCES user;
CREATE UNIQUE INDEX credit_account_owner ON credit_account (owner) WHERE owner IS NOT NULL;

-- The API key that a debit was made with, and the calendar month (UTC) in which it counts against
-- the key's cap: 12 * year + month - 1.  A reversal counts in the month of its debit.
ALTER TABLE credit_entry ADD COLUMN api_key INTEGER REFERENCES api_key;
ALTER TABLE credit_entry ADD COLUMN month INTEGER CHECK ((month IS NULL) = (api_key IS NULL));
CREATE INDEX credit_entry_api_key ON credit_entry (api_key, month) WHERE api_key IS NOT NULL;

ALTER TABLE api_key ADD COLUMN month_credits_max INTEGER CHECK (month_credits_max >= 0);

CREATE TABLE key_month (
    api_key INTEGER NOT NULL REFERENCES api_key,
    month   INTEGER NOT NULL,
    credits INTEGER NOT NULL CHECK (credits >= 0),   -- spent, less what was given back
    PRIMARY KEY (api_key, month)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER credit_entry_counts_for_its_key AFTER INSERT ON credit_entry
 WHEN NEW.api_key IS NOT NULL BEGIN
    INSERT INTO key_month (api_key, month, credits) VALUES (NEW.api_key, NEW.month, 0)
        ON CONFLICT DO NOTHING;
    UPDATE key_month SET credits = credits - NEW.delta
     WHERE api_key = NEW.api_key AND month = NEW.month;
END;

-- Credits that a user moved between the account and credit tokens, or that came with an agent that
-- the user claimed: two entries that cancel out.
CREATE TABLE credit_move (
    id         INTEGER PRIMARY KEY,
    user       INTEGER NOT NULL REFERENCES user,
    kind       TEXT    NOT NULL CHECK (kind IN ('deposit', 'withdrawal', 'claim')),
    key_hash   BLOB    UNIQUE CHECK (length(key_hash) = 32),  -- of the Idempotency-Key, if any
    off_entry  INTEGER NOT NULL UNIQUE REFERENCES credit_entry,
    onto_entry INTEGER NOT NULL UNIQUE REFERENCES credit_entry
) STRICT;

CREATE TRIGGER credit_move_is_never_changed BEFORE UPDATE ON credit_move BEGIN
    SELECT raise(ABORT, 'what was moved stays moved');
END;

CREATE TRIGGER credit_move_is_never_deleted BEFORE DELETE ON credit_move BEGIN
    SELECT raise(ABORT, 'what was moved stays moved');
END;

-- Wallets whose owner has proven, by a signature, to be the user.
CREATE TABLE linked_wallet (
    id        INTEGER PRIMARY KEY,
    user      INTEGER NOT NULL REFERENCES user,
    wallet    TEXT    NOT NULL,
    linked_at INTEGER NOT NULL,
    UNIQUE (user, wallet)
) STRICT;
