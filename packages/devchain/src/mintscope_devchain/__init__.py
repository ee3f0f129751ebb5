"""A local Solana with a simulated market, for demos, tests and benchmarks."""
