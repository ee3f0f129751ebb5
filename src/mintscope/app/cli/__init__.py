"""Commands of `mintscope`."""
