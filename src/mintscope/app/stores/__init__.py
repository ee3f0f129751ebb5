"""Opens, upgrades, copies and backs up the stores of an installation."""
