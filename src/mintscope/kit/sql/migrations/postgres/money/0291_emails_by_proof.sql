-- least: 1
-- The e-mails of a proof, which an engine looks for if the proof is deleted.
CREATE INDEX letter_proof ON letter (proof) WHERE proof IS NOT NULL;
