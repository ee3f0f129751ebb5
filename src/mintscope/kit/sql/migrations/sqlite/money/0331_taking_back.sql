-- Since when what was made in an account ends if it is taken back: when the session began in which
-- the change was made.  NULL: with the proof.
ALTER TABLE proof ADD COLUMN since INTEGER;
-- Addresses that an account may have again are held.
CREATE INDEX proof_held ON proof (email) WHERE purpose = 'undo_email';
-- When the address of its webhooks was last changed; NULL: not since it was made.
ALTER TABLE signal ADD COLUMN webhook_at INTEGER;
