"""Stores of an installation: open, upgrade, copy, back up."""
