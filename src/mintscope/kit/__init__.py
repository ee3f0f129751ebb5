"""What every feature stands on: clock, errors, limits, metrics, HTTP, SQL."""
