"""The blocks, transactions and finality of Solana, read from a node or from files."""
