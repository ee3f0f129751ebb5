"""Readers of swaps that transfers alone do not show."""
