"""Modules that all features share: clock, errors, limits, metrics, HTTP and SQL."""
