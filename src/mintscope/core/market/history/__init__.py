"""The past of a mint, read after it was followed."""
