"""Credits and wallets of an account."""
