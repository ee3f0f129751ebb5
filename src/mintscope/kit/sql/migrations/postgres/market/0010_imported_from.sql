-- least: 8
-- Start of the first candle that was imported for a mint; NULL: none was.
ALTER TABLE state ADD COLUMN imported_from bigint;
UPDATE state SET imported_from =
       (SELECT min(bucket) FROM candle WHERE candle.mint = state.mint AND provider IS NOT NULL)
 WHERE mint IN (SELECT DISTINCT mint FROM candle WHERE provider IS NOT NULL);
