"""The commands of administrators."""
