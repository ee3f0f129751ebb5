"""Shared by all features: clock, errors, limits, metrics, HTTP, SQL."""
