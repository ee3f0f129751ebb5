"""Signatures of wallets, which spend credits, and of services, which prove payments."""
