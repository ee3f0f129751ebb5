"""What processes at one database say to each other: who writes, who audits, that it was written."""
