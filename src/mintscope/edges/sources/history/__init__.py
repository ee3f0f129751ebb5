"""The past of an address, read from a node."""
