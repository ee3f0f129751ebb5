-- Alert rules of users, and what fired.  Times are Unix milliseconds, but `time` (Unix seconds).
CREATE TABLE signal (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    user              INTEGER NOT NULL REFERENCES user,
    name              TEXT    NOT NULL,
    mint              TEXT    NOT NULL,
    field             TEXT    NOT NULL,
    kind              TEXT    NOT NULL,
    level             REAL    NOT NULL,
    margin            REAL    NOT NULL,
    percent           REAL    NOT NULL,
    window_s          INTEGER NOT NULL,
    webhook_url       TEXT,
    by_email          INTEGER NOT NULL,
    is_active         INTEGER NOT NULL,
    nonce             BLOB    NOT NULL,
    old_nonce         BLOB,
    old_nonce_until   INTEGER,
    revision          INTEGER NOT NULL DEFAULT 1,
    state             TEXT,
    created_at        INTEGER NOT NULL,
    fired_at          INTEGER,
    webhook_failed_at INTEGER
) STRICT;
CREATE INDEX signal_user ON signal (user);

-- due_at: of the next attempt to send its webhook; NULL: by no webhook.
CREATE TABLE signal_firing (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    signal       INTEGER NOT NULL REFERENCES signal,
    kind         TEXT    NOT NULL,
    seq          INTEGER NOT NULL,
    slot         INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    value        REAL    NOT NULL,
    direction    TEXT    NOT NULL,
    reference    REAL    NOT NULL,
    fired_at     INTEGER NOT NULL,
    due_at       INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    delivered_at INTEGER,
    given_up_at  INTEGER,
    reason       TEXT
) STRICT;
CREATE INDEX signal_firing_signal ON signal_firing (signal, id);
CREATE INDEX signal_firing_due ON signal_firing (due_at)
 WHERE due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL;
CREATE INDEX signal_firing_age ON signal_firing (fired_at);

-- How far signals have been evaluated, and by which process.
CREATE TABLE signal_turn (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    seq        INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    holder     BLOB    NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;

-- What a mint that signals look at can be begun from again, as of event seq of the swap log.
CREATE TABLE signal_base (
    mint   TEXT    PRIMARY KEY,
    seq    INTEGER NOT NULL,
    packed BLOB    NOT NULL
) STRICT;

-- What was made with which Idempotency-Key.
CREATE TABLE made_thing (
    key_hash BLOB    PRIMARY KEY,
    asked    BLOB    NOT NULL,
    thing    INTEGER NOT NULL,
    made_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX made_thing_age ON made_thing (made_at);
