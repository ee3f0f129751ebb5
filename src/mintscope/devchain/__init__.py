"""A local Solana whose market trades in real transaction shapes."""
