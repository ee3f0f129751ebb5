-- The token that a payment is made in: more than one may be taken at once.
-- NULL: begun before that; in the only token that was taken then, which no row has told.
ALTER TABLE payment ADD COLUMN asset TEXT;
ALTER TABLE orphan ADD COLUMN asset TEXT;

DROP TRIGGER payment_is_as_promised;
CREATE TRIGGER payment_is_as_promised BEFORE UPDATE OF
       message_hash, signature, payer, resource, amount, asset, credits, token_hash, key_hash,
       fee_lamports, last_valid_height, begun_at ON payment BEGIN
    SELECT raise(ABORT, 'what was promised is never changed');
END;

-- The treasury of each token is scanned by itself: 'new' and 'all' are the payment token's scans,
-- 'new:MINT' and 'all:MINT' those of a token that is taken beside it.
CREATE TABLE scan_of_treasury (
    scope       TEXT    PRIMARY KEY,
    mark        TEXT,
    head        TEXT,
    cursor      TEXT,
    finished_at INTEGER          -- of the last scan of what is new; NULL for 'all' while under way
) STRICT, WITHOUT ROWID;

INSERT INTO scan_of_treasury SELECT scope, mark, head, cursor, finished_at FROM treasury_scan;
DROP TABLE treasury_scan;
ALTER TABLE scan_of_treasury RENAME TO treasury_scan;
