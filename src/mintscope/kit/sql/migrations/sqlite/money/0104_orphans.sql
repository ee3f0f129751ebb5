-- Payments of ours that are on chain and had no row when an audit met them: a backup was restored.
CREATE TABLE orphan (
    signature       TEXT    PRIMARY KEY,
    payer           TEXT,                                 -- NULL: it carries no quote of ours
    amount          INTEGER,
    bought          TEXT,                                 -- the resource
    found_at        INTEGER NOT NULL,
    acknowledged_at INTEGER,                              -- when an operator settled it otherwise
    note            TEXT,
    CHECK ((acknowledged_at IS NULL) = (note IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER orphan_is_never_deleted BEFORE DELETE ON orphan BEGIN
    SELECT raise(ABORT, 'orphans are never forgotten');
END;

CREATE TRIGGER orphan_is_settled_for_good BEFORE UPDATE ON orphan
 WHEN OLD.acknowledged_at IS NOT NULL BEGIN
    SELECT raise(ABORT, 'what was acknowledged stays so');
END;
