-- A key that replaced another one counts with it against their cap.  The first key of the chain of
-- rotations that a key came from; NULL: it replaced none.
ALTER TABLE api_key ADD COLUMN first_key INTEGER REFERENCES api_key;
CREATE INDEX api_key_chain ON api_key (coalesce(first_key, id));

WITH RECURSIVE chain (id, first_key) AS (
    SELECT replaced_by, id FROM api_key AS first
     WHERE replaced_by IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM api_key AS old WHERE old.replaced_by = first.id)
     UNION ALL
    SELECT api_key.replaced_by, chain.first_key
      FROM chain JOIN api_key ON api_key.id = chain.id
     WHERE api_key.replaced_by IS NOT NULL)
UPDATE api_key SET first_key = (SELECT chain.first_key FROM chain WHERE chain.id = api_key.id)
 WHERE id IN (SELECT id FROM chain);

CREATE TRIGGER api_key_joins_the_chain AFTER UPDATE OF replaced_by ON api_key
 WHEN NEW.replaced_by IS NOT NULL BEGIN
    UPDATE api_key SET first_key = coalesce(NEW.first_key, NEW.id) WHERE id = NEW.replaced_by;
END;
