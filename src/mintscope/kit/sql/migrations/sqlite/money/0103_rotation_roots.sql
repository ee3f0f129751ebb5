-- The first account of the chain of rotations that an account came from, which limits are kept
-- by; NULL: the account itself. And the wallet whose proof opened the account: what came with it
-- that wallet bought. NULL for accounts that were opened in any other way, and for those of which
-- the wallet has moved it on.
ALTER TABLE credit_account ADD COLUMN root INTEGER REFERENCES credit_account;
ALTER TABLE credit_account ADD COLUMN wallet TEXT;

WITH RECURSIVE chain (root, id) AS (
    SELECT id, successor FROM credit_account
     WHERE successor IS NOT NULL
       AND id NOT IN (SELECT successor FROM credit_account WHERE successor IS NOT NULL)
     UNION
    SELECT chain.root, next.successor
      FROM chain JOIN credit_account AS next ON next.id = chain.id
     WHERE next.successor IS NOT NULL)
UPDATE credit_account SET root = chain.root FROM chain WHERE chain.id = credit_account.id;
