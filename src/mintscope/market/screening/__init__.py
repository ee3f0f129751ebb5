"""Conditions over the list."""
