"""Reports as they change: updates of a mint after a swap, and their listeners."""
