"""Swaps to candles to indicators to a report.  Pure."""
