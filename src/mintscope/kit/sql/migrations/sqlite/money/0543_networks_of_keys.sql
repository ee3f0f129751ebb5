-- The networks from which a key is accepted, in CIDR notation, between spaces; empty: any.
ALTER TABLE api_key ADD COLUMN networks TEXT NOT NULL DEFAULT '';
