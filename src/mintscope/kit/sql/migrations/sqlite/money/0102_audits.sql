-- What may be in flight, what is missed, how far audits have come, and where credits went.

-- The finalized height at which an issued payment was first missed; 0: it is not.
ALTER TABLE payment ADD COLUMN missed_height INTEGER NOT NULL DEFAULT 0 CHECK (missed_height >= 0);

-- What a payer and an address have in flight, and what they have bought.
CREATE INDEX payment_pending_from ON payment (address, fee_lamports) WHERE state = 'pending';
CREATE INDEX payment_sold_to ON payment (payer, resolved_at) WHERE state = 'issued';
CREATE INDEX payment_sold_from ON payment (address, resolved_at) WHERE state = 'issued';

-- What was promised stands, and no state is left for one that comes before it.
CREATE TRIGGER payment_begins BEFORE INSERT ON payment
 WHEN NEW.state <> 'pending' OR NEW.fee_lamports <= 0 OR NEW.last_valid_height <= 0 BEGIN
    SELECT raise(ABORT, 'a payment begins pending, costs a fee and ends at a height');
END;

CREATE TRIGGER payment_is_as_promised BEFORE UPDATE OF
       message_hash, signature, payer, resource, amount, credits, token_hash, key_hash,
       fee_lamports, last_valid_height, begun_at ON payment BEGIN
    SELECT raise(ABORT, 'what was promised is never changed');
END;

CREATE TRIGGER payment_never_goes_back BEFORE UPDATE OF state ON payment
 WHEN (NEW.state = 'pending' AND OLD.state <> 'pending')
   OR (NEW.state = 'failed' AND OLD.state IN ('issued', 'frozen')) BEGIN
    SELECT raise(ABORT, 'a payment never goes back');
END;

-- How far the treasury's history has been compared with the payments: what is new in it,
-- and, once a day, all of it.  It is read from its newest end, so a scan has a head to begin
-- at, a cursor that comes down, and a mark to end at: the head of the scan before.
CREATE TABLE treasury_scan (
    scope       TEXT    PRIMARY KEY CHECK (scope IN ('new', 'all')),
    mark        TEXT,
    head        TEXT,
    cursor      TEXT,
    finished_at INTEGER          -- of the last scan of what is new; NULL for 'all' while under way
) STRICT, WITHOUT ROWID;

INSERT INTO treasury_scan (scope, mark) SELECT 'new', signature FROM treasury_mark;
DROP TABLE treasury_mark;

-- Where audits have looked in vain for what would make chain and books agree.
CREATE TABLE doubt (
    signature TEXT    PRIMARY KEY,
    kind      TEXT    NOT NULL CHECK (kind IN ('arrived', 'issued')),
    first_at  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    looks     INTEGER NOT NULL,
    look_at   INTEGER NOT NULL   -- the next time
) STRICT, WITHOUT ROWID;

CREATE INDEX doubt_due ON doubt (look_at);

-- What the fee payer can still pay with: as last read, less what was promised since.
CREATE TABLE fee_fund (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    lamports INTEGER NOT NULL
) STRICT;

-- Where the credits of a token went when it was rotated, for what still arrives on it.
-- Rotations of before wrote two entries, one after the other.
ALTER TABLE credit_account ADD COLUMN successor INTEGER REFERENCES credit_account;

UPDATE credit_account SET successor = (
    SELECT onto.account FROM credit_entry AS off
      JOIN credit_entry AS onto ON onto.id = off.id + 1 AND onto.kind = 'rotate'
       AND onto.delta = -off.delta
     WHERE off.account = credit_account.id AND off.kind = 'rotate' AND off.kind <> 'spend'
       AND off.delta < 0
     ORDER BY off.id LIMIT 1);

CREATE TRIGGER successor_is_never_changed BEFORE UPDATE OF successor ON credit_account
 WHEN OLD.successor IS NOT NULL BEGIN
    SELECT raise(ABORT, 'the first rotation of a token decides where its credits are');
END;
