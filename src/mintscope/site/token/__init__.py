"""The list of tokens, and the page of each token."""
