-- least: 1
-- The token that a payment is made in: more than one may be taken at once.
-- NULL: begun before that; in the only token that was taken then, which no row has told.
ALTER TABLE payment ADD COLUMN asset text;
ALTER TABLE orphan ADD COLUMN asset text;

DROP TRIGGER payment_is_as_promised ON payment;
CREATE TRIGGER payment_is_as_promised BEFORE UPDATE OF
       message_hash, signature, payer, resource, amount, asset, credits, token_hash, key_hash,
       fee_lamports, last_valid_height, begun_at ON payment
    FOR EACH ROW EXECUTE FUNCTION refuse('what was promised is never changed');

-- The treasury of each token is scanned by itself: 'new' and 'all' are the payment token's scans,
-- 'new:MINT' and 'all:MINT' those of a token that is taken beside it.
ALTER TABLE treasury_scan DROP CONSTRAINT treasury_scan_scope_check;
