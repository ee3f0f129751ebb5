"""Faults of a running service at night, and the signs by which an operator learns of each."""
