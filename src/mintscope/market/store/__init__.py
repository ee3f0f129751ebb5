"""The market in SQL."""
