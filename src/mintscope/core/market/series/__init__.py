"""Series of a mint, by the page: its candles, what they say, and its swaps."""
