"""Compares rules that decide which swaps set a price, on the same markets and attacks.

`python -m prove.prices` prints the table of decision 60.
"""
