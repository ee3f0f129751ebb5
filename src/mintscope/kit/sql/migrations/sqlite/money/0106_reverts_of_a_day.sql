-- A payer's reverts of a day are held against its purchases of the day, at each payment.
CREATE INDEX payment_reverted_by ON payment (payer, resolved_at)
 WHERE reason = 'transaction_failed';
