"""app/directories."""
