"""Blocks, transactions and finality of Solana, from a node or from files."""
