"""The instructions of each program, in the formats of mainnet."""
