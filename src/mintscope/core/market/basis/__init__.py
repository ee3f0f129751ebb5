"""The basis of a price, and its confidence."""
