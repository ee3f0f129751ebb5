"""State of each token and timeframe, updated swap by swap."""
