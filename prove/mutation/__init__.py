"""Mutation testing by mutmut: one change at a time, after which some test must fail."""
