-- How often an alert fires, what it is compared with, its own message, its end, and its e-mails;
-- alerts of before fire at each crossing.
ALTER TABLE signal ADD COLUMN fires TEXT NOT NULL DEFAULT 'each';
ALTER TABLE signal ADD COLUMN compared TEXT;
ALTER TABLE signal ADD COLUMN direction TEXT;
ALTER TABLE signal ADD COLUMN message TEXT NOT NULL DEFAULT '';
ALTER TABLE signal ADD COLUMN expires_at INTEGER;
ALTER TABLE signal ADD COLUMN ended_at INTEGER;
ALTER TABLE signal ADD COLUMN emailed_at INTEGER;
ALTER TABLE signal ADD COLUMN email_due_at INTEGER;
CREATE INDEX signal_email_due ON signal (email_due_at) WHERE email_due_at IS NOT NULL;
CREATE INDEX signal_expiry ON signal (expires_at) WHERE expires_at IS NOT NULL AND is_active = 1;

-- email: waiting, written or not_sent; NULL: by no e-mail, or before this was noted.
ALTER TABLE signal_firing ADD COLUMN email TEXT;
ALTER TABLE signal_firing ADD COLUMN email_id INTEGER;
ALTER TABLE signal_firing ADD COLUMN email_note TEXT;
CREATE INDEX signal_firing_email ON signal_firing (signal, id) WHERE email = 'waiting';
