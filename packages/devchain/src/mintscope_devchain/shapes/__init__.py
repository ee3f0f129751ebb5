"""The instructions of each program, byte for byte as the chain has them."""
