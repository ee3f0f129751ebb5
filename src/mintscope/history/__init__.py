"""Backfill of a token, mending of gaps, imports."""
