"""Users, sessions and second factors; API keys, signups, wallets, e-mail."""
