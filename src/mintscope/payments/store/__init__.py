"""Payments and books in SQL."""
