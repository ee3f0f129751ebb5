"""The simulated market of a devchain: its pools, prices and transactions."""
