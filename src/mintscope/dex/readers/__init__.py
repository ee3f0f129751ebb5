"""Programs that need their own reader."""
