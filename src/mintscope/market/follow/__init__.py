"""The swap log, followed by each api process."""
