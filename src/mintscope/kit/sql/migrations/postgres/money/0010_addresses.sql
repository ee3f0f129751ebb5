-- least: 1
-- Proofs of a change of e-mail address, and whence API keys were used.  Times are Unix milliseconds.
ALTER TABLE proof DROP CONSTRAINT proof_purpose_check;
ALTER TABLE proof ADD CONSTRAINT proof_purpose_check CHECK (purpose IN (
    'confirm_application', 'verify_email', 'reset_password', 'claim_agent',
    'change_email', 'undo_email'));

-- The client addresses, or networks, that used a key last: ten of each key.
CREATE TABLE key_address (
    api_key      bigint NOT NULL REFERENCES api_key,
    address      text   NOT NULL,
    last_used_at bigint NOT NULL,
    PRIMARY KEY (api_key, address)
);
