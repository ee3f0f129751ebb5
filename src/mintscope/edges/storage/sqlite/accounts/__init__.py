"""Accounts in SQLite."""
