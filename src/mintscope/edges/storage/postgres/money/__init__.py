"""Credits in PostgreSQL."""
