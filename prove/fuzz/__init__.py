"""Generated input for all code that reads input of strangers."""
