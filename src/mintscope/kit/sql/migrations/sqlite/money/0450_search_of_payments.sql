-- What support looks for payments by, beside their signature and their payer.
CREATE INDEX credit_account_hint ON credit_account (hint) WHERE hint <> '';
CREATE INDEX payment_account ON payment (account) WHERE account IS NOT NULL;
