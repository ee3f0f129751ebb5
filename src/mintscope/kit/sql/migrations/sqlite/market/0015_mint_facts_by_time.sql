-- Lists of all mints read what was read of them since they last looked.
CREATE INDEX mint_fact_by_time ON mint_fact (read_at_ms);
