"""The page of a token."""
