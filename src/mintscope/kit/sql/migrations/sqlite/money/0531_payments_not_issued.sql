-- Payments that were not issued, for administrators: few beside those that were.
CREATE INDEX payment_not_issued ON payment (state, begun_at) WHERE state <> 'issued';
