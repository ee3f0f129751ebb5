"""Made-up input for everything that reads what strangers send."""
