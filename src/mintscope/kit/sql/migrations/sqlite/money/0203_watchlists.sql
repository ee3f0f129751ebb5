-- Mints that users watch, under names.  Times are Unix milliseconds.
CREATE TABLE watchlist (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user       INTEGER NOT NULL REFERENCES user,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX watchlist_user ON watchlist (user);

CREATE TABLE watched_mint (
    id        INTEGER PRIMARY KEY,
    watchlist INTEGER NOT NULL REFERENCES watchlist,
    mint      TEXT    NOT NULL,
    added_at  INTEGER NOT NULL,
    UNIQUE (watchlist, mint)
) STRICT;
