-- Who may use the service by name: applications, users, their keys and sessions.
-- Times are Unix milliseconds.  No secret is stored: hashes, and nonces that are worth
-- something only together with keys kept outside.

CREATE TABLE user (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    kind          TEXT    NOT NULL CHECK (kind IN ('person', 'agent')),
    username      TEXT    NOT NULL UNIQUE,
    email         TEXT    NOT NULL,
    verified_at   INTEGER,
    password_hash TEXT,
    administrator INTEGER NOT NULL DEFAULT 0 CHECK (administrator IN (0, 1)),
    created_at    INTEGER NOT NULL,
    removed_at    INTEGER,
    CHECK ((password_hash IS NULL) = (kind = 'agent')),
    CHECK (administrator = 0 OR kind = 'person')
) STRICT;

-- A mailbox belongs to one person; any number of agents may have been signed up with it.
CREATE UNIQUE INDEX user_person ON user (email) WHERE kind = 'person' AND removed_at IS NULL;
CREATE INDEX user_agent ON user (email) WHERE kind = 'agent' AND removed_at IS NULL;

CREATE TABLE application (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    email          TEXT    NOT NULL UNIQUE,
    telegram       TEXT,
    twitter        TEXT,
    user_type      TEXT    NOT NULL CHECK (user_type IN ('trader', 'provider', 'both')),
    motivation     TEXT    NOT NULL,
    secret_hash    BLOB    NOT NULL CHECK (length(secret_hash) = 32),
    secret_nonce   BLOB    NOT NULL,
    signup_redeem  BLOB,                            -- hash of the Idempotency-Key of the signup
    state          TEXT    NOT NULL CHECK (state IN (
        'awaiting_confirmation', 'awaiting_approval', 'approved', 'rejected', 'key_issued')),
    applied_at     INTEGER NOT NULL,
    confirmed_at   INTEGER,
    decided_at     INTEGER,
    decided_by     TEXT,
    scopes         TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(scopes)),
    note           TEXT    NOT NULL DEFAULT '',
    user           INTEGER REFERENCES user,
    issued_at      INTEGER,
    key_nonce      BLOB,
    exchange_redeem BLOB,                           -- hash of the Idempotency-Key of the exchange
    CHECK ((state = 'key_issued') = (issued_at IS NOT NULL)),
    CHECK ((state = 'key_issued') = (key_nonce IS NOT NULL)),
    CHECK (state <> 'key_issued' OR user IS NOT NULL),
    CHECK ((decided_at IS NULL) = (state IN ('awaiting_confirmation', 'awaiting_approval')))
) STRICT;

CREATE INDEX application_queue ON application (state, applied_at);
CREATE INDEX application_user ON application (user) WHERE user IS NOT NULL;

CREATE TABLE api_key (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user         INTEGER NOT NULL REFERENCES user,
    application  INTEGER,                           -- whose secret it was exchanged for
    key_hash     BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    hint         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL CHECK (json_valid(scopes)),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER,
    replaced_by  INTEGER REFERENCES api_key
) STRICT;

CREATE INDEX api_key_user ON api_key (user);
-- One key per signup: a second needs a reset, which revokes the first.
CREATE UNIQUE INDEX api_key_signup ON api_key (application)
 WHERE application IS NOT NULL AND revoked_at IS NULL AND replaced_by IS NULL;

CREATE TABLE session (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    cookie_hash BLOB    NOT NULL UNIQUE CHECK (length(cookie_hash) = 32),
    user        INTEGER NOT NULL REFERENCES user,
    created_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    proved_at   INTEGER NOT NULL,
    address     TEXT    NOT NULL,
    agent       TEXT    NOT NULL
) STRICT;

CREATE INDEX session_user ON session (user);

-- Links and codes sent by mail; both derive from the nonce.
CREATE TABLE proof (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose    TEXT    NOT NULL CHECK (purpose IN (
        'confirm_application', 'verify_email', 'reset_password', 'claim_agent')),
    subject    INTEGER NOT NULL,                    -- an application or a user, by purpose
    email      TEXT    NOT NULL,
    nonce      BLOB    NOT NULL,
    made_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    guesses    INTEGER NOT NULL DEFAULT 0,
    used_at    INTEGER
) STRICT;

CREATE INDEX proof_subject ON proof (purpose, subject);

-- Letters to send, written in the transaction of what they tell of.
CREATE TABLE letter (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT    NOT NULL,
    recipient   TEXT    NOT NULL,
    facts       TEXT    NOT NULL CHECK (json_valid(facts)),
    proof       INTEGER REFERENCES proof ON DELETE SET NULL,
    written_at  INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,                   -- when it is tried next
    attempts    INTEGER NOT NULL DEFAULT 0,
    sent_at     INTEGER,
    given_up_at INTEGER,
    reason      TEXT                                -- why the last attempt failed
) STRICT;

CREATE INDEX letter_recipient ON letter (recipient, kind, written_at);
CREATE INDEX letter_due ON letter (due_at) WHERE sent_at IS NULL AND given_up_at IS NULL;

-- What administrators and account owners did.
CREATE TABLE account_event (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,                       -- 'user:7', 'command line', 'service'
    action  TEXT    NOT NULL,
    subject TEXT    NOT NULL,                       -- 'application:3', 'user:7', 'key:5'
    detail  TEXT    NOT NULL DEFAULT '{}' CHECK (json_valid(detail))
) STRICT;

CREATE INDEX account_event_subject ON account_event (subject);

CREATE TRIGGER account_event_is_never_changed BEFORE UPDATE ON account_event BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;

CREATE TRIGGER account_event_is_never_deleted BEFORE DELETE ON account_event BEGIN
    SELECT raise(ABORT, 'the audit log is append-only');
END;
