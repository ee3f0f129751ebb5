"""The market data that each api process keeps current."""
