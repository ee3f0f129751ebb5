-- The worth of the amount at the price of its token when the payment began, in micro-USD.
-- NULL: begun before that was stored, or no price was known.
ALTER TABLE payment ADD COLUMN worth INTEGER CHECK (worth >= 0);

DROP TRIGGER payment_is_as_promised;
CREATE TRIGGER payment_is_as_promised BEFORE UPDATE OF
       message_hash, signature, payer, resource, amount, asset, worth, credits, token_hash,
       key_hash, fee_lamports, last_valid_height, begun_at ON payment BEGIN
    SELECT raise(ABORT, 'what was promised is never changed');
END;
