"""Stores the market in SQL."""
