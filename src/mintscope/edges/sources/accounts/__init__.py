"""What accounts of the chain say, asked of a node."""
