"""The instructions of each program, with the same bytes as on mainnet."""
