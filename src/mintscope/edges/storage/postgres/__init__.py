"""Stores on PostgreSQL 15 or newer."""
