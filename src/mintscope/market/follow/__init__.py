"""Follows the swap log in each api process."""
