"""State of each token and timeframe, folded swap by swap."""
