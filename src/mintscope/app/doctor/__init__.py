"""Checks of an installation, in words."""
