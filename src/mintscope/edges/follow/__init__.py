"""The work of every api process on the swap log."""
