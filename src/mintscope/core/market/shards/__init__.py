"""A market in parts, by mint."""
