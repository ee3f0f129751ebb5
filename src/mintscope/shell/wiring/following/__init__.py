"""What each api process keeps current of the market."""
