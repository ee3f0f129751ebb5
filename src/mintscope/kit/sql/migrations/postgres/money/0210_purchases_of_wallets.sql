-- least: 1
-- The accounts that the purchases of a wallet brought credits to, for wallets that sign in.
CREATE INDEX payment_bought_by ON payment (payer, holder) WHERE holder IS NOT NULL;
