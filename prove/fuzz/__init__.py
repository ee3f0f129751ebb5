"""Fuzzing: generated input for all code that reads untrusted input."""
