-- least: 1
-- Names of answers that were paid for: for ten minutes they are given again without a credit.
CREATE TABLE kept_answer (
    name    text PRIMARY KEY,
    account bigint NOT NULL REFERENCES credit_account,
    at      bigint NOT NULL,
    repeats bigint NOT NULL DEFAULT 0                  -- if any, nothing is given back for it
);
CREATE INDEX kept_answer_at ON kept_answer (at);

-- Does what `debit` does, for answers with a name: nothing is taken for one that is kept and not
-- older than *since*.  Names are of one account, so that they are claimed behind its lock.
-- Returns, as JSON, for each debit [account, delta, balance, key, month, name, is it a repeat].
CREATE FUNCTION debit_once(
    accounts bigint[], counts bigint[], keys bigint[], at_ms bigint, in_month bigint,
    names text[], since bigint
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    one     json;
    debited json[] := '{}';
BEGIN
    PERFORM 1 FROM credit_account WHERE id = ANY(accounts) ORDER BY id FOR NO KEY UPDATE;
    FOR n IN 1 .. cardinality(accounts) LOOP
        INSERT INTO kept_answer AS kept (name, account, at) VALUES (names[n], accounts[n], at_ms)
            ON CONFLICT (name) DO UPDATE SET at = excluded.at, repeats = 0
                WHERE kept.at < since;
        IF FOUND THEN
            one := debit(accounts[n:n], counts[n:n], keys[n:n], at_ms, in_month)::json -> 0;
            IF (one ->> 1)::bigint = 0 THEN
                DELETE FROM kept_answer WHERE name = names[n];
            END IF;
            one := json_build_array(
                one -> 0, one -> 1, one -> 2, one -> 3, one -> 4, names[n], false);
        ELSE
            UPDATE kept_answer SET repeats = repeats + 1 WHERE name = names[n];
            SELECT json_build_array(a.id, 0, a.balance, keys[n], in_month, names[n], true)
              INTO one FROM credit_account AS a WHERE a.id = accounts[n];
        END IF;
        debited := array_append(debited, one);
    END LOOP;
    RETURN array_to_json(debited)::text;
END $$;
