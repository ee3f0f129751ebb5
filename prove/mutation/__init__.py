"""Mutation testing with mutmut: it changes one expression at a time, and a test must fail."""
