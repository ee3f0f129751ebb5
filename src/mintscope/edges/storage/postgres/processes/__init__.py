"""Messages between processes at one database: who writes, who audits, that it was written."""
