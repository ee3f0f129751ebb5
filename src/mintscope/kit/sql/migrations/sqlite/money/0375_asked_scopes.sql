-- The scopes that an applicant asks for, beside those that read.
ALTER TABLE application
  ADD COLUMN asked_scopes TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(asked_scopes));
