-- least: 1
-- What all api processes have in common while any of them runs; secrets as hashes.
CREATE TABLE replica_settings (
    name  text PRIMARY KEY,
    value text NOT NULL
);
