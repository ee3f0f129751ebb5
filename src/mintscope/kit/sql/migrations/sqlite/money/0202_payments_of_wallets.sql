-- What a wallet has paid, newest first, for the users whom it is linked to.
CREATE INDEX payment_of_wallet ON payment (payer, begun_at, signature);
