"""SQL on SQLite and PostgreSQL: connections, group commit, locks, migrations."""
