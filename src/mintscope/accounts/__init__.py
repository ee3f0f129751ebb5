"""Users, API keys, signups, wallets, e-mail."""
