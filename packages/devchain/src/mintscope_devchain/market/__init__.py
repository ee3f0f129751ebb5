"""The simulated market: pools, prices and traffic."""
