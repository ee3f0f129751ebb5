"""Webhooks: sent to addresses that clients name, and to public ones alone."""
