"""The state of each token in memory, with candles and indicators, updated swap by swap."""
