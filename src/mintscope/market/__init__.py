"""Prices, candles, indicators and reports, computed from swaps."""
