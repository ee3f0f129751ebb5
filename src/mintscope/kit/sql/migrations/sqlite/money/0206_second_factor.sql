-- The second factor of people.  Times are Unix milliseconds.  No secret is stored: that of an app
-- derives from its nonce and a key kept outside, codes are hashes, and a passkey's key is public.
CREATE TABLE authenticator_app (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user         INTEGER NOT NULL UNIQUE REFERENCES user,
    nonce        BLOB    NOT NULL,
    made_at      INTEGER NOT NULL,
    confirmed_at INTEGER,                           -- NULL: no code of it was typed yet
    last_step    INTEGER NOT NULL                   -- whose code was accepted last
) STRICT;

CREATE TABLE recovery_code (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    user      INTEGER NOT NULL REFERENCES user,
    code_hash BLOB    NOT NULL CHECK (length(code_hash) = 32),
    made_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX recovery_code_user ON recovery_code (user);

CREATE TABLE passkey (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user          INTEGER NOT NULL REFERENCES user,
    credential_id BLOB    NOT NULL UNIQUE,
    public_key    BLOB    NOT NULL,                 -- a COSE key
    sign_count    INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    made_at       INTEGER NOT NULL,
    last_used_at  INTEGER
) STRICT;
CREATE INDEX passkey_user ON passkey (user);

-- Sign-ins whose password was right, and which wait for the second factor.
CREATE TABLE half_sign_in (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    user        INTEGER NOT NULL REFERENCES user,
    ticket_hash BLOB    NOT NULL UNIQUE CHECK (length(ticket_hash) = 32),
    begun_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX half_sign_in_user ON half_sign_in (user);
