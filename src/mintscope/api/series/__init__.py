"""Candles, indicators, swaps, pools and traders by API."""
