-- What a mint was when a node was last asked: a fact of its own, beside what is counted of it.
CREATE TABLE mint_fact (
    mint       INTEGER PRIMARY KEY REFERENCES mint ON DELETE CASCADE,
    slot       INTEGER NOT NULL,                 -- the state was read as of this slot
    read_at_ms INTEGER NOT NULL,
    facts      BLOB                              -- JSON of MintFacts; NULL: it was no mint
) STRICT;
