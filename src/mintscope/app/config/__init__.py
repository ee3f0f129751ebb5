"""Settings, with unit and default."""
