"""Hashing passwords with argon2id."""
