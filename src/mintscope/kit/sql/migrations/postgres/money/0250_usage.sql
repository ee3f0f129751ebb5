-- least: 1
-- The endpoint that a debit paid for: its number in credits/endpoints.py.  NULL: none is noted.
ALTER TABLE credit_entry ADD COLUMN endpoint bigint;
ALTER TABLE stream_minute ADD COLUMN endpoint bigint;

-- Does what `debit` and `debit_once` do, and notes the endpoint of each debit; *names* is NULL, or
-- has the name of each answer.  Returns, as JSON, for each debit
-- [account, delta, balance, key, month, name, is it a repeat, endpoint].
CREATE FUNCTION debit_for(
    accounts bigint[], counts bigint[], keys bigint[], endpoints bigint[], at_ms bigint,
    in_month bigint, names text[], since bigint
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    remaining bigint;
    debited   json[] := '{}';
BEGIN
    PERFORM 1 FROM credit_account WHERE id = ANY(accounts) ORDER BY id FOR NO KEY UPDATE;
    FOR n IN 1 .. cardinality(accounts) LOOP
        IF names IS NOT NULL THEN
            INSERT INTO kept_answer AS kept (name, account, at)
            VALUES (names[n], accounts[n], at_ms)
                ON CONFLICT (name) DO UPDATE SET at = excluded.at, repeats = 0
                    WHERE kept.at < since;
            IF NOT FOUND THEN
                UPDATE kept_answer SET repeats = repeats + 1 WHERE name = names[n];
                SELECT a.balance INTO remaining FROM credit_account AS a WHERE a.id = accounts[n];
                debited := array_append(debited, json_build_array(
                    accounts[n], 0, remaining, keys[n], in_month, names[n], true, endpoints[n]));
                CONTINUE;
            END IF;
        END IF;
        INSERT INTO credit_entry (account, kind, delta, balance, at, api_key, month, endpoint)
        SELECT a.id, 'spend', -counts[n], a.balance - counts[n], at_ms, keys[n],
               CASE WHEN keys[n] IS NULL THEN NULL ELSE in_month END, endpoints[n]
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
            debited := array_append(debited, json_build_array(accounts[n], -counts[n], remaining,
                keys[n], in_month, names[n], false, endpoints[n]));
        ELSE
            IF names IS NOT NULL THEN
                DELETE FROM kept_answer WHERE name = names[n];
            END IF;
            SELECT a.balance INTO remaining FROM credit_account AS a WHERE a.id = accounts[n];
            debited := array_append(debited, json_build_array(accounts[n], 0, remaining,
                keys[n], in_month, names[n], false, endpoints[n]));
        END IF;
    END LOOP;
    RETURN array_to_json(debited)::text;
END $$;

-- Requests of users that cost credits, and those credits less what was given back, by day (UTC,
-- since 1970-01-01), API key (0: none) and endpoint (0: none is noted): the journal, added up as
-- far as the mark.
CREATE TABLE usage_day (
    account  bigint NOT NULL REFERENCES credit_account,
    day      bigint NOT NULL,
    api_key  bigint NOT NULL,
    endpoint bigint NOT NULL,
    requests bigint NOT NULL CHECK (requests >= 0),
    credits  bigint NOT NULL,
    PRIMARY KEY (account, day, api_key, endpoint)
);
CREATE INDEX usage_day_day ON usage_day (day);

CREATE TABLE usage_day_mark (
    id    bigint PRIMARY KEY CHECK (id = 1),
    entry bigint NOT NULL   -- the last that is added up
);
INSERT INTO usage_day_mark VALUES (1, 0);
