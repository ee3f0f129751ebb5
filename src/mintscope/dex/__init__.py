"""Swaps, decoded from transactions."""
