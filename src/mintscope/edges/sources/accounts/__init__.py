"""Accounts of the chain, asked of a node."""
