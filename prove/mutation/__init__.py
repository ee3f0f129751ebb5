"""Mutation testing by mutmut: one thing is changed at a time, and some test must fail."""
