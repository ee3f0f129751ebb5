"""SQL over SQLite and PostgreSQL: connections, group commit, locks, migrations."""
