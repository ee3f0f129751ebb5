"""Common to all features: clock, errors, limits, metrics, HTTP, SQL."""
