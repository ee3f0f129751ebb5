-- The quote that a payment carries, so that no other payment is begun with it.
-- NULL: begun before quotes were kept, or adopted from the chain.
ALTER TABLE payment ADD COLUMN quote BLOB;

CREATE UNIQUE INDEX payment_quote ON payment (quote) WHERE quote IS NOT NULL;
