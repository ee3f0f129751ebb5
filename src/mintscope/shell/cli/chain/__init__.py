"""Commands about what is read of the chain."""
