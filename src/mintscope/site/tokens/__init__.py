"""The list of tokens as a page."""
