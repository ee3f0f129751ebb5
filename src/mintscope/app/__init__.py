"""The composition root: it chooses implementations and starts processes."""
