"""People: signing up, signing in, sessions and passwords."""
