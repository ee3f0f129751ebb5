-- least: 1
-- How often an alert fires, what it is compared with, its own message, its end, and its e-mails;
-- alerts of before fire at each crossing.
ALTER TABLE signal ADD COLUMN fires text NOT NULL DEFAULT 'each';
ALTER TABLE signal ADD COLUMN compared text;
ALTER TABLE signal ADD COLUMN direction text;
ALTER TABLE signal ADD COLUMN message text NOT NULL DEFAULT '';
ALTER TABLE signal ADD COLUMN expires_at bigint;
ALTER TABLE signal ADD COLUMN ended_at bigint;
ALTER TABLE signal ADD COLUMN emailed_at bigint;
ALTER TABLE signal ADD COLUMN email_due_at bigint;
CREATE INDEX signal_email_due ON signal (email_due_at) WHERE email_due_at IS NOT NULL;
CREATE INDEX signal_expiry ON signal (expires_at) WHERE expires_at IS NOT NULL AND is_active = 1;

-- email: waiting, written or not_sent; NULL: by no e-mail, or before this was noted.
ALTER TABLE signal_firing ADD COLUMN email text;
ALTER TABLE signal_firing ADD COLUMN email_id bigint;
ALTER TABLE signal_firing ADD COLUMN email_note text;
CREATE INDEX signal_firing_email ON signal_firing (signal, id) WHERE email = 'waiting';
