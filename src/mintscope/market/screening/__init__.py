"""The list of all tokens, conditions over it, and backtests of them."""
