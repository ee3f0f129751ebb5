"""5,000 swaps a second over 100,000 mints, on each engine, for any number of minutes."""
