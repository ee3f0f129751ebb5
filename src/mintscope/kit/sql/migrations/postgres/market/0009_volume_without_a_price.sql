-- least: 8
-- Spans of every timeframe in which something was traded and no swap set a price have a row with
-- count 0.  Before, minutes alone had: those that are kept tell what wider spans lack.
INSERT INTO candle (mint, timeframe, bucket, buy_volume, sell_volume, count)
SELECT mint, wide.timeframe, bucket - bucket % seconds, sum(buy_volume), sum(sell_volume), 0
  FROM candle CROSS JOIN (SELECT 'm5' AS timeframe, 300 AS seconds
                          UNION ALL SELECT 'm15', 900 UNION ALL SELECT 'h1', 3600) AS wide
 WHERE candle.timeframe = 'm1' AND count = 0
 GROUP BY mint, wide.timeframe, bucket - bucket % seconds
ON CONFLICT DO NOTHING;

INSERT INTO history_candle (mint, timeframe, bucket, buy_volume, sell_volume, count)
SELECT mint, wide.timeframe, bucket - bucket % seconds, sum(buy_volume), sum(sell_volume), 0
  FROM history_candle CROSS JOIN (SELECT 'm5' AS timeframe, 300 AS seconds
                            UNION ALL SELECT 'm15', 900 UNION ALL SELECT 'h1', 3600) AS wide
 WHERE history_candle.timeframe = 'm1' AND count = 0
 GROUP BY mint, wide.timeframe, bucket - bucket % seconds
ON CONFLICT DO NOTHING;
