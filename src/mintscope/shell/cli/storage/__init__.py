"""What an operator does with the stores: copies, backups, upgrades."""
