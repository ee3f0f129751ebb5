"""Account and payment maintenance, and the hashing of passwords."""
