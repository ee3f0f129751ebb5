"""The routes of candles, indicators, swaps, pools, traders, holders and backtests."""
