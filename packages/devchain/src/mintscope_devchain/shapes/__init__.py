"""Instructions of the programs that the simulated market uses, in the formats of mainnet."""
