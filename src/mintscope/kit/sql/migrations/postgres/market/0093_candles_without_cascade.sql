-- least: 91
-- A mint is forgotten only once its candles are gone, so none has to be looked for; a candle that
-- begins need not look for its mint, and candles may lie elsewhere.
ALTER TABLE candle DROP CONSTRAINT candle_mint_fkey;
ALTER TABLE waypoint DROP CONSTRAINT waypoint_mint_fkey;
