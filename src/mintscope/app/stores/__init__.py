"""The stores of an installation: opens, upgrades, copies and backs them up."""
