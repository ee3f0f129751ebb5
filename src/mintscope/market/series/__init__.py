"""Candles, indicators, swaps, pools and traders over time."""
