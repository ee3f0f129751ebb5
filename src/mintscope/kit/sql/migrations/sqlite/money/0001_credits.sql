-- Credit tokens, and everything that ever happened to their balances.
-- Times are Unix milliseconds.

CREATE TABLE credit_account (
    id         INTEGER PRIMARY KEY,
    token_hash BLOB    NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    hint       TEXT    NOT NULL,               -- the token's last eight characters
    note       TEXT    NOT NULL,
    issued_at  INTEGER NOT NULL,
    balance    INTEGER NOT NULL DEFAULT 0 CHECK (balance >= 0)
) STRICT;

-- The journal.  A spend of several credits in one commit is one entry.
-- A reversal gives back what was taken for an answer that said "nothing was charged".
-- A freeze takes back what is left of a payment that vanished from the chain; a thaw undoes it.
CREATE TABLE credit_entry (
    id      INTEGER PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES credit_account,
    kind    TEXT    NOT NULL CHECK (
        kind IN ('payment', 'grant', 'top_up', 'rotate', 'reversal', 'thaw', 'spend', 'freeze')),
    delta   INTEGER NOT NULL CHECK (
        CASE WHEN kind IN ('spend', 'freeze') THEN delta < 0
             WHEN kind = 'rotate' THEN delta <> 0 ELSE delta > 0 END),
    balance INTEGER NOT NULL CHECK (balance >= 0),  -- after this entry
    at      INTEGER NOT NULL
) STRICT;

-- The only way a balance moves.  The second statement refuses an entry that was
-- computed from any balance but the current one.
CREATE TRIGGER credit_entry_moves_balance AFTER INSERT ON credit_entry BEGIN
    UPDATE credit_account SET balance = balance + NEW.delta WHERE id = NEW.account;
    SELECT raise(ABORT, 'the entry does not continue its account''s balance')
     WHERE NEW.balance <> (SELECT balance FROM credit_account WHERE id = NEW.account);
END;

CREATE TRIGGER credit_entry_is_never_changed BEFORE UPDATE ON credit_entry BEGIN
    SELECT raise(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER credit_entry_is_never_deleted BEFORE DELETE ON credit_entry BEGIN
    SELECT raise(ABORT, 'the journal is append-only');
END;

CREATE TRIGGER credit_account_is_never_deleted BEFORE DELETE ON credit_account BEGIN
    SELECT raise(ABORT, 'credit tokens never disappear');
END;

-- Which pepper the hashes above were made with, so that a wrong one is noticed at the start.
CREATE TABLE pepper (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    check_hash BLOB NOT NULL
) STRICT;
