"""Solana swaps to token analytics, sold per request."""

__version__ = "0.1.0"
