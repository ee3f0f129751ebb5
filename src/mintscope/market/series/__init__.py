"""The data of one token over time: candles, indicators, swaps, pools and traders."""
