"""Credits and payments in SQLite."""
