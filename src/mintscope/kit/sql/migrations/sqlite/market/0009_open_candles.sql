-- The newest candle with a price moves into the state, so that the fold reads one row a mint.
UPDATE state SET state = state_2(
       state,
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM candle AS c
         WHERE c.mint = state.mint AND timeframe = 'm1' AND count > 0 ORDER BY bucket DESC LIMIT 1),
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM candle AS c
         WHERE c.mint = state.mint AND timeframe = 'm5' AND count > 0 ORDER BY bucket DESC LIMIT 1),
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM candle AS c
         WHERE c.mint = state.mint AND timeframe = 'm15' AND count > 0 ORDER BY bucket DESC LIMIT 1),
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM candle AS c
         WHERE c.mint = state.mint AND timeframe = 'h1' AND count > 0 ORDER BY bucket DESC LIMIT 1));

UPDATE history_job SET state = state_2(
       state,
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM history_candle AS c
         WHERE c.mint = history_job.mint AND timeframe = 'm1' AND count > 0 ORDER BY bucket DESC LIMIT 1),
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM history_candle AS c
         WHERE c.mint = history_job.mint AND timeframe = 'm5' AND count > 0 ORDER BY bucket DESC LIMIT 1),
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM history_candle AS c
         WHERE c.mint = history_job.mint AND timeframe = 'm15' AND count > 0 ORDER BY bucket DESC LIMIT 1),
       (SELECT packed_candle(bucket, open, high, low, close, count) FROM history_candle AS c
         WHERE c.mint = history_job.mint AND timeframe = 'h1' AND count > 0 ORDER BY bucket DESC LIMIT 1))
 WHERE state IS NOT NULL;
