"""Reports as they change: what is told of a mint after a swap, and to whom."""
