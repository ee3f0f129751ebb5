"""5,000 swaps a second over 100,000 mints, on each engine, for as long as is asked."""
