"""Benchmark of the whole market: 5,000 swaps a second over 100,000 mints, on each engine."""
