"""Mutation testing: one operator, constant or statement changed at a time; some test must fail."""
