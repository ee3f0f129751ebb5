"""The credits and wallets of an account."""
