"""Backfills of tokens, the mending of gaps, and imports of candles."""
