-- least: 1
-- Which installation this is, as in the market of the same, and the newest mintscope that ran on it.
CREATE TABLE installation (
    id      bigint PRIMARY KEY CHECK (id = 1),
    name    text   NOT NULL CHECK (length(name) = 32),   -- hexadecimal digits, at random
    version text   NOT NULL
);
