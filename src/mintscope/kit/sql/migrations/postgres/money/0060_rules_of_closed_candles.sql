-- least: 1
-- Rules that are looked at as each minute ends, without the candles that are open then.
ALTER TABLE signal ADD COLUMN is_closed bigint NOT NULL DEFAULT 0;
