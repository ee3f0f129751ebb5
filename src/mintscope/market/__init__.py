"""Prices, candles, indicators and reports, made of swaps."""
