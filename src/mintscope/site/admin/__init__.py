"""Pages of administrators."""
