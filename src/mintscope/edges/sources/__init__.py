"""Solana in: sources of blocks."""
