"""The market in SQLite."""
