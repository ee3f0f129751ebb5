"""Pages of the second factor."""
