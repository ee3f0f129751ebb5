"""Arguments in, objects out; the only row that chooses implementations."""
