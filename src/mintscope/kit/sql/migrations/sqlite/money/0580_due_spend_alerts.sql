-- 1: credits were added up for the account since it was last compared with its level, or the level
-- is new.
ALTER TABLE spend_alert ADD COLUMN is_due INTEGER NOT NULL DEFAULT 1 CHECK (is_due IN (0, 1));
CREATE INDEX spend_alert_due ON spend_alert ("user") WHERE is_due = 1;
