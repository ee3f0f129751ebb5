-- least: 1
-- A key that replaced another one counts with it against their cap.  The first key of the chain of
-- rotations that a key came from; NULL: it replaced none.
ALTER TABLE api_key ADD COLUMN first_key bigint REFERENCES api_key;
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

CREATE FUNCTION join_chain_of_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE api_key SET first_key = coalesce(NEW.first_key, NEW.id) WHERE id = NEW.replaced_by;
    RETURN NULL;
END $$;
CREATE TRIGGER api_key_joins_the_chain AFTER UPDATE OF replaced_by ON api_key
    FOR EACH ROW WHEN (NEW.replaced_by IS NOT NULL) EXECUTE FUNCTION join_chain_of_keys();

-- Takes all credits of each debit or none, first come first served.  The accounts are locked first,
-- in the order of their numbers, so that no two batches wait for each other; what is read after
-- that, in a statement of its own, is as the holder of the lock before has left it.  All keys that
-- spend from an account are counted behind its lock.  Returns, as JSON, for each debit
-- [account, what it took (0 or less), the balance then, key, month].
CREATE OR REPLACE FUNCTION debit(
    accounts bigint[], counts bigint[], keys bigint[], at_ms bigint, in_month bigint
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    remaining bigint;
    debited   json[] := '{}';
BEGIN
    PERFORM 1 FROM credit_account WHERE id = ANY(accounts) ORDER BY id FOR NO KEY UPDATE;
    FOR n IN 1 .. cardinality(accounts) LOOP
        INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month)
        SELECT a.id, 'spend', -counts[n], a.balance - counts[n], at_ms, keys[n],
               CASE WHEN keys[n] IS NULL THEN NULL ELSE in_month END
          FROM credit_account AS a
         WHERE a.id = accounts[n] AND a.balance >= counts[n]
           AND NOT EXISTS (
               SELECT 1 FROM api_key AS k
                WHERE k.id = keys[n] AND k.month_credits_max < counts[n] + coalesce((
                   SELECT sum(m.credits) FROM api_key AS each_
                     JOIN key_month AS m ON m.api_key = each_.id AND m.month = in_month
                    WHERE coalesce(each_.first_key, each_.id) = coalesce(k.first_key, k.id)), 0))
        RETURNING balance INTO remaining;
        IF FOUND THEN
            debited := array_append(debited, json_build_array(
                accounts[n], -counts[n], remaining, keys[n], in_month));
        ELSE
            SELECT a.balance INTO remaining FROM credit_account AS a WHERE a.id = accounts[n];
            debited := array_append(debited, json_build_array(
                accounts[n], 0, remaining, keys[n], in_month));
        END IF;
    END LOOP;
    RETURN array_to_json(debited)::text;
END $$;
