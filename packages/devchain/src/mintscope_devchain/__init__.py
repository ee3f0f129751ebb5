"""A local Solana with a market that trades: for demos, tests and benchmarks."""
