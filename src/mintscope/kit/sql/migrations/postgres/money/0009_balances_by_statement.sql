-- least: 1
-- Balances move once a statement, not once a row: debits come in batches of many accounts.
-- Each entry must continue its account's balance, and be its account's only one in its statement.
LOCK TABLE credit_account, credit_entry;  -- in this order, in which debits come to them

CREATE FUNCTION move_balances() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE continued bigint;
BEGIN
    WITH now AS (
        UPDATE credit_account AS a SET balance = a.balance + moved.delta
          FROM moved WHERE a.id = moved.account
        RETURNING a.balance = moved.balance AS continues)
    SELECT count(*) INTO continued FROM now WHERE continues;
    IF continued <> (SELECT count(*) FROM moved) THEN
        RAISE EXCEPTION 'the entry does not continue its account''s balance'
              USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER credit_entry_moves_balance ON credit_entry;
CREATE TRIGGER credit_entry_moves_balance AFTER INSERT ON credit_entry
    REFERENCING NEW TABLE AS moved FOR EACH STATEMENT EXECUTE FUNCTION move_balances();
DROP FUNCTION move_balance();

-- That an entry's account is there is what the trigger finds out; accounts are never deleted.
ALTER TABLE credit_entry DROP CONSTRAINT credit_entry_account_fkey;
