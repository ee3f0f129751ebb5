"""Pure rules: no I/O, no clock of their own, no randomness."""
