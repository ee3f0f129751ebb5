"""Mutation testing by mutmut: one change of the code at a time, after which a test must fail."""
