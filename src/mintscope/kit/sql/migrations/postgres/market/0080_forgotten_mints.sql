-- least: 40
-- Up to which mint a new day has looked for those that no longer trade; NULL: at all of them.
ALTER TABLE progress ADD COLUMN forgotten_id bigint;
