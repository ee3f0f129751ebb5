-- Which builds have written this installation, and which backups of it were taken.
-- Times are Unix milliseconds.
CREATE TABLE written_by (
    version  TEXT    NOT NULL,
    commit_id TEXT   NOT NULL,         -- '' if it cannot be told
    first_at INTEGER NOT NULL,
    PRIMARY KEY (version, commit_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE backup_taken (
    id        INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    place     TEXT    NOT NULL,
    version   TEXT    NOT NULL,        -- of the mintscope that took it
    migration INTEGER NOT NULL         -- newest of money: code that knows it can use the backup
) STRICT;
