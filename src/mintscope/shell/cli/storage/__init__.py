"""Commands for the stores: copies, backups, upgrades."""
