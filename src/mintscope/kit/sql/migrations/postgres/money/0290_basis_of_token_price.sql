-- least: 1
-- A hash of the settings from which the price was read.  Processes with other settings do not use
-- the price.
ALTER TABLE token_price ADD COLUMN basis text NOT NULL DEFAULT '';
