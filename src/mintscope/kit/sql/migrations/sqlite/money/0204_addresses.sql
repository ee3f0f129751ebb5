-- Proofs of a change of e-mail address, and whence API keys were used.  Times are Unix milliseconds.

-- SQLite cannot change a CHECK: the table is made anew.  E-mails lose their proof when the old one
-- is dropped, and get it back.
CREATE TABLE proof_made_anew (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose    TEXT    NOT NULL CHECK (purpose IN (
        'confirm_application', 'verify_email', 'reset_password', 'claim_agent',
        'change_email', 'undo_email')),
    subject    INTEGER NOT NULL,                    -- an application or a user, by purpose
    email      TEXT    NOT NULL,
    nonce      BLOB    NOT NULL,
    made_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    guesses    INTEGER NOT NULL DEFAULT 0,
    used_at    INTEGER
) STRICT;
INSERT INTO proof_made_anew SELECT * FROM proof;
CREATE TEMP TABLE kept_proof AS SELECT id, proof FROM letter WHERE proof IS NOT NULL;
DROP TABLE proof;
ALTER TABLE proof_made_anew RENAME TO proof;
CREATE INDEX proof_subject ON proof (purpose, subject);
UPDATE letter SET proof = (SELECT proof FROM kept_proof WHERE kept_proof.id = letter.id)
 WHERE id IN (SELECT id FROM kept_proof);
DROP TABLE kept_proof;

-- The client addresses, or networks, that used a key last: ten of each key.
CREATE TABLE key_address (
    api_key      INTEGER NOT NULL REFERENCES api_key,
    address      TEXT    NOT NULL,
    last_used_at INTEGER NOT NULL,
    PRIMARY KEY (api_key, address)
) STRICT, WITHOUT ROWID;
