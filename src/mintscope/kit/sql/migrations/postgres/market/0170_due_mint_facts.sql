-- least: 130
-- When facts of the mint were last asked for; 0: never.  Those that are due are the first of the
-- index, whatever the number of mints.
ALTER TABLE mint ADD COLUMN facts_read_at_ms bigint NOT NULL DEFAULT 0;
UPDATE mint SET facts_read_at_ms = coalesce(
       (SELECT read_at_ms FROM mint_fact WHERE mint_fact.mint = mint.id), 0)
 WHERE since_slot IS NOT NULL;
CREATE INDEX mint_facts_due ON mint (facts_read_at_ms, address) WHERE since_slot IS NOT NULL;
