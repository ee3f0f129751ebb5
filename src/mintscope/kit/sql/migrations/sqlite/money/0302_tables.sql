-- The tables of 24 November 2026, in which earlier migrations are joined.
-- Times are Unix milliseconds, amounts raw units of the payment token.

-- A hash that shows whether the pepper of the stored hashes is the one that the process has.
CREATE TABLE pepper (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    check_hash BLOB NOT NULL
) STRICT;

-- Who may use the service by name: applications, users, their keys and sessions.  No secret is
-- stored, only hashes, and nonces that are useful only together with keys that are kept outside.
-- An address belongs to one person; any number of agents may have signed up with it.
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

-- One key per signup: a second one needs a reset, which revokes the first.
CREATE TABLE api_key (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user         INTEGER NOT NULL REFERENCES user,
    application  INTEGER,                           -- whose secret was exchanged for it
    key_hash     BLOB    NOT NULL UNIQUE CHECK (length(key_hash) = 32),
    hint         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL CHECK (json_valid(scopes)),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER,
    replaced_by  INTEGER REFERENCES api_key,
    month_credits_max INTEGER CHECK (month_credits_max >= 0)
) STRICT;
CREATE INDEX api_key_user ON api_key (user);
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

-- Links and codes sent by e-mail; both derive from the nonce.
CREATE TABLE proof (
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
CREATE INDEX proof_subject ON proof (purpose, subject);

-- E-mails to send, written in the transaction of the change that they report.
CREATE TABLE letter (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT    NOT NULL,
    recipient   TEXT    NOT NULL,
    facts       TEXT    NOT NULL CHECK (json_valid(facts)),
    proof       INTEGER REFERENCES proof ON DELETE SET NULL,
    written_at  INTEGER NOT NULL,
    due_at      INTEGER NOT NULL,                   -- of the next attempt
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

-- The second factor of people.  No secret is stored: that of an app derives from its nonce and a
-- key that is kept outside, codes are hashes, and the key of a passkey is public.
CREATE TABLE authenticator_app (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user         INTEGER NOT NULL UNIQUE REFERENCES user,
    nonce        BLOB    NOT NULL,
    made_at      INTEGER NOT NULL,
    confirmed_at INTEGER,                           -- NULL: no code was entered yet
    last_step    INTEGER NOT NULL                   -- of the last accepted code
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

-- Sign-ins with the right password that wait for the second factor.
CREATE TABLE half_sign_in (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    user        INTEGER NOT NULL REFERENCES user,
    ticket_hash BLOB    NOT NULL UNIQUE CHECK (length(ticket_hash) = 32),
    begun_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX half_sign_in_user ON half_sign_in (user);

-- Wallets whose owner has proven, by a signature, to be the user.
CREATE TABLE linked_wallet (
    id        INTEGER PRIMARY KEY,
    user      INTEGER NOT NULL REFERENCES user,
    wallet    TEXT    NOT NULL,
    linked_at INTEGER NOT NULL,
    UNIQUE (user, wallet)
) STRICT;

-- Mints that users watch, in named lists.
CREATE TABLE watchlist (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user       INTEGER NOT NULL REFERENCES user,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX watchlist_user ON watchlist (user);

CREATE TABLE watched_mint (
    id        INTEGER PRIMARY KEY,
    watchlist INTEGER NOT NULL REFERENCES watchlist,
    mint      TEXT    NOT NULL,
    added_at  INTEGER NOT NULL,
    UNIQUE (watchlist, mint)
) STRICT;

-- The client addresses, or networks, that used a key last: ten of each key.
CREATE TABLE key_address (
    api_key      INTEGER NOT NULL REFERENCES api_key,
    address      TEXT    NOT NULL,
    last_used_at INTEGER NOT NULL,
    PRIMARY KEY (api_key, address)
) STRICT, WITHOUT ROWID;

-- Credit tokens, and the credits of users. owner: the user; NULL: the account of a credit token.
-- The hash of a user's account is that of no token.  root: the first account of the chain of
-- rotations, by which limits count; NULL: the account itself.  wallet: the wallet whose proof
-- opened the account; NULL: it was opened otherwise, or the wallet has moved it on.  successor:
-- the account to which a rotation moved the credits.
CREATE TABLE credit_account (
    id         INTEGER PRIMARY KEY,
    token_hash BLOB    NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    hint       TEXT    NOT NULL,               -- the token's last eight characters
    note       TEXT    NOT NULL,
    issued_at  INTEGER NOT NULL,
    balance    INTEGER NOT NULL DEFAULT 0 CHECK (balance >= 0),
    successor  INTEGER REFERENCES credit_account,
    root       INTEGER REFERENCES credit_account,
    wallet     TEXT,
    owner      INTEGER REFERENCES user
) STRICT;
CREATE UNIQUE INDEX credit_account_owner ON credit_account (owner) WHERE owner IS NOT NULL;

CREATE TRIGGER credit_account_is_never_deleted BEFORE DELETE ON credit_account BEGIN
    SELECT raise(ABORT, 'credit tokens never disappear');
END;
CREATE TRIGGER successor_is_never_changed BEFORE UPDATE OF successor ON credit_account
 WHEN OLD.successor IS NOT NULL BEGIN
    SELECT raise(ABORT, 'the first rotation of a token decides where its credits are');
END;

-- The journal.  A spend of several credits in one commit is one entry.  A reversal returns
-- credits that were taken for an answer with "nothing was charged".  A freeze takes back what is
-- left of a payment that vanished from the chain; a thaw undoes it.  A debit has the API key
-- that made it, and the calendar month (UTC) in which it counts against the key's cap: 12 * year
-- + month - 1.  A reversal counts in the month of its debit.
CREATE TABLE credit_entry (
    id      INTEGER PRIMARY KEY,
    account INTEGER NOT NULL REFERENCES credit_account,
    kind    TEXT    NOT NULL CHECK (
        kind IN ('payment', 'grant', 'top_up', 'rotate', 'reversal', 'thaw', 'spend', 'freeze')),
    delta   INTEGER NOT NULL CHECK (
        CASE WHEN kind IN ('spend', 'freeze') THEN delta < 0
             WHEN kind = 'rotate' THEN delta <> 0 ELSE delta > 0 END),
    balance INTEGER NOT NULL CHECK (balance >= 0),  -- after this entry
    at      INTEGER NOT NULL,
    api_key INTEGER REFERENCES api_key,
    month   INTEGER CHECK ((month IS NULL) = (api_key IS NULL))
) STRICT;
CREATE INDEX credit_entry_received ON credit_entry (account, id) WHERE kind <> 'spend';
CREATE INDEX credit_entry_api_key ON credit_entry (api_key, month) WHERE api_key IS NOT NULL;

-- The only way a balance changes.  The second statement refuses an entry that was computed from any
-- balance but the current one.
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
CREATE TRIGGER credit_entry_counts_for_its_key AFTER INSERT ON credit_entry
 WHEN NEW.api_key IS NOT NULL BEGIN
    INSERT INTO key_month (api_key, month, credits) VALUES (NEW.api_key, NEW.month, 0)
        ON CONFLICT DO NOTHING;
    UPDATE key_month SET credits = credits - NEW.delta
     WHERE api_key = NEW.api_key AND month = NEW.month;
END;

-- Credits that a user moved between the account and credit tokens, or that came with an agent
-- that the user claimed: two entries that cancel out.
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

CREATE TABLE key_month (
    api_key INTEGER NOT NULL REFERENCES api_key,
    month   INTEGER NOT NULL,
    credits INTEGER NOT NULL CHECK (credits >= 0),   -- spent, less the returned ones
    PRIMARY KEY (api_key, month)
) STRICT, WITHOUT ROWID;

-- Credits that requests of each account took on each day (UTC, since 1970-01-01), less the
-- returned ones: the journal, added up as far as the mark.
CREATE TABLE credit_day (
    account INTEGER NOT NULL REFERENCES credit_account,
    day     INTEGER NOT NULL,
    credits INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE credit_day_mark (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    entry INTEGER NOT NULL   -- the last that was added
) STRICT;
INSERT INTO credit_day_mark VALUES (1, 0);

-- Minutes of streams that are paid in advance and in progress: a row is deleted once something
-- was sent, or with the reversal that returns the credits.
CREATE TABLE stream_minute (
    id      INTEGER PRIMARY KEY,               -- random, by the process that took it
    writer  INTEGER NOT NULL,                  -- that process
    at      INTEGER NOT NULL,
    account INTEGER NOT NULL REFERENCES credit_account,
    credits INTEGER NOT NULL CHECK (credits > 0),
    api_key INTEGER REFERENCES api_key,
    month   INTEGER CHECK ((month IS NULL) = (api_key IS NULL))
) STRICT;

-- Payments on chain, and what each of them bought. missed_height: the finalized height at which
-- an issued payment was first missed; 0: it was not. quote: of the payment, so that no other
-- payment begins with it; NULL: begun before quotes were stored, or adopted from the chain.
-- asset: the token of the payment; NULL: begun before it was stored, in the only token that was
-- accepted then.
CREATE TABLE payment (
    id                INTEGER PRIMARY KEY,
    message_hash      BLOB    NOT NULL UNIQUE CHECK (length(message_hash) = 32),
    signature         TEXT    NOT NULL UNIQUE,
    payer             TEXT    NOT NULL,
    address           TEXT    NOT NULL,           -- of the client, for its failure budget
    resource          TEXT    NOT NULL,
    amount            INTEGER NOT NULL CHECK (amount > 0),
    credits           INTEGER NOT NULL CHECK (credits >= 0),      -- 0: a report
    body              BLOB,                       -- of a report, until it is deleted
    token_hash        BLOB    UNIQUE CHECK (length(token_hash) = 32),
    hint              TEXT,
    account           INTEGER REFERENCES credit_account,  -- of a new token: once it is issued
    holder            INTEGER REFERENCES credit_account,  -- where its credits are now
    rotated_at        INTEGER,
    entry             INTEGER UNIQUE REFERENCES credit_entry,     -- that issued the credits
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
    missed_height     INTEGER NOT NULL DEFAULT 0 CHECK (missed_height >= 0),
    quote             BLOB,
    asset             TEXT,
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
CREATE INDEX payment_pending_from ON payment (address, fee_lamports) WHERE state = 'pending';
CREATE INDEX payment_sold_to ON payment (payer, resolved_at) WHERE state = 'issued';
CREATE INDEX payment_sold_from ON payment (address, resolved_at) WHERE state = 'issued';
CREATE UNIQUE INDEX payment_quote ON payment (quote) WHERE quote IS NOT NULL;
CREATE INDEX payment_reverted_by ON payment (payer, resolved_at)
 WHERE reason = 'transaction_failed';
CREATE INDEX payment_of_wallet ON payment (payer, begun_at, signature);

CREATE TRIGGER payment_is_never_deleted BEFORE DELETE ON payment BEGIN
    SELECT raise(ABORT, 'payments are never forgotten');
END;
CREATE TRIGGER payment_begins BEFORE INSERT ON payment
 WHEN NEW.state <> 'pending' OR NEW.fee_lamports <= 0 OR NEW.last_valid_height <= 0 BEGIN
    SELECT raise(ABORT, 'a payment begins pending, costs a fee and ends at a height');
END;
CREATE TRIGGER payment_never_goes_back BEFORE UPDATE OF state ON payment
 WHEN (NEW.state = 'pending' AND OLD.state <> 'pending')
   OR (NEW.state = 'failed' AND OLD.state IN ('issued', 'frozen')) BEGIN
    SELECT raise(ABORT, 'a payment never goes back');
END;
CREATE TRIGGER payment_is_as_promised BEFORE UPDATE OF
       message_hash, signature, payer, resource, amount, asset, credits, token_hash, key_hash,
       fee_lamports, last_valid_height, begun_at ON payment BEGIN
    SELECT raise(ABORT, 'what was promised is never changed');
END;

-- Payments to the treasury without a row in `payment` when an audit found them, because a backup
-- was restored.
CREATE TABLE orphan (
    signature       TEXT    PRIMARY KEY,
    payer           TEXT,                                 -- NULL: it has no quote of ours
    amount          INTEGER,
    bought          TEXT,                                 -- the resource
    found_at        INTEGER NOT NULL,
    acknowledged_at INTEGER,                              -- when an operator settled it
    note            TEXT,
    asset           TEXT,
    CHECK ((acknowledged_at IS NULL) = (note IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER orphan_is_never_deleted BEFORE DELETE ON orphan BEGIN
    SELECT raise(ABORT, 'orphans are never forgotten');
END;
CREATE TRIGGER orphan_is_settled_for_good BEFORE UPDATE ON orphan
 WHEN OLD.acknowledged_at IS NOT NULL BEGIN
    SELECT raise(ABORT, 'what was acknowledged stays so');
END;

-- The progress of comparing the history of the treasury with the payments: its new part, and
-- once a day all of it.  The history is read from its newest end: a scan begins at head, cursor
-- descends, and it ends at mark, the head of the scan before.  Each token has its own scans:
-- 'new' and 'all' are those of the payment token, 'new:MINT' and 'all:MINT' those of a further
-- token.
CREATE TABLE treasury_scan (
    scope       TEXT    PRIMARY KEY,
    mark        TEXT,
    head        TEXT,
    cursor      TEXT,
    finished_at INTEGER          -- of the last scan; NULL for 'all' while it runs
) STRICT, WITHOUT ROWID;

-- Differences between chain and books that audits have not yet been able to explain.
CREATE TABLE doubt (
    signature TEXT    PRIMARY KEY,
    kind      TEXT    NOT NULL CHECK (kind IN ('arrived', 'issued')),
    first_at  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    looks     INTEGER NOT NULL,
    look_at   INTEGER NOT NULL   -- of the next check
) STRICT, WITHOUT ROWID;
CREATE INDEX doubt_due ON doubt (look_at);

-- The lamports that the fee payer can still pay: as last read, less what was promised since.
CREATE TABLE fee_fund (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    lamports INTEGER NOT NULL
) STRICT;

-- While there is a row, nothing is sold.  Credits can still be spent.
CREATE TABLE sales_stop (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    at  INTEGER NOT NULL,
    why TEXT    NOT NULL
) STRICT;

-- Alerts of users, and their firings.  `time` is in Unix seconds.
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

-- due_at: of the next attempt to send the webhook; NULL: there is none.
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
CREATE INDEX signal_firing_waiting ON signal_firing (signal, id)
 WHERE due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL;

-- The position up to which alerts have been evaluated, and the process that evaluates them.
CREATE TABLE signal_turn (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    seq        INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    holder     BLOB    NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;

-- The figures of a mint with alerts, from which evaluation continues, as of event seq of the
-- log.
CREATE TABLE signal_base (
    mint   TEXT    PRIMARY KEY,
    seq    INTEGER NOT NULL,
    packed BLOB    NOT NULL
) STRICT;

-- Idempotency records: what was created with which Idempotency-Key.
CREATE TABLE made_thing (
    key_hash BLOB    PRIMARY KEY,
    asked    BLOB    NOT NULL,
    thing    INTEGER NOT NULL,
    made_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX made_thing_age ON made_thing (made_at);

-- Numbers of each hour (UTC, since 1970-01-01), of all processes together.
CREATE TABLE operation_hour (
    hour   INTEGER NOT NULL,
    series TEXT    NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (hour, series)
) STRICT, WITHOUT ROWID;
