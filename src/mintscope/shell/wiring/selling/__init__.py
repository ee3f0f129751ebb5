"""The parts of selling: terms, prices, the recognition of payments."""
