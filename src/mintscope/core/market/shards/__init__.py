"""A market in parts: which mints are of which."""
