"""Settings, with their units and defaults."""
