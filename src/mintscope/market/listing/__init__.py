"""The list of all tokens."""
