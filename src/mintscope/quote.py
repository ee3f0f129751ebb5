"""Prices in USD, amounts in atoms, and the one function between them."""
