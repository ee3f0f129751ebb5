"""What every api process does with the swap log."""
