"""Readers of swaps that transfers alone do not tell."""
