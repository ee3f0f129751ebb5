"""The instructions of each program, byte for byte as on the chain."""
