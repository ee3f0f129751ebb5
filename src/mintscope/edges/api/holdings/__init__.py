"""The routes under /v1/account: what the user of an API key holds."""
