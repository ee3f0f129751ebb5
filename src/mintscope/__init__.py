"""Analytics of Solana tokens, computed from swaps and sold per request."""

__version__ = "0.1.0"
