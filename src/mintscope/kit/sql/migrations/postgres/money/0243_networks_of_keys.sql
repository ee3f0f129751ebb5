-- least: 1
-- The networks from which a key is accepted, in CIDR notation, between spaces; empty: any.
ALTER TABLE api_key ADD COLUMN networks text NOT NULL DEFAULT '';
