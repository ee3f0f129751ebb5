"""Signatures by wallets, to spend credits, and by services, to prove payments."""
