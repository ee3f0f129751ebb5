"""Tokens that fulfil a condition: /v1/screen."""
