"""Programs that need a reader of their own."""
