-- Reports that are forgotten after a day, without looking at all payments that had one.
CREATE INDEX payment_body ON payment (begun_at) WHERE body IS NOT NULL;
