"""The routes of accounts: sign-up, confirmation, exchange, /v1/me."""
