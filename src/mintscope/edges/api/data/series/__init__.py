"""Series of a mint: candles, indicators and swaps, a credit a page."""
