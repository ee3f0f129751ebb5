"""Prices: the price of the payment token and the price list."""
