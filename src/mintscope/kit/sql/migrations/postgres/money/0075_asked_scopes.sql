-- least: 1
-- The scopes that an applicant asks for, beside those that read.
ALTER TABLE application
  ADD COLUMN asked_scopes text NOT NULL DEFAULT '[]' CHECK (asked_scopes::jsonb IS NOT NULL);
