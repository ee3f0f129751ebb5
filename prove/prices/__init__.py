"""Rules of which swap sets a price, tried on the same markets and the same attacks.

`python -m prove.prices` prints the table of decision 60.
"""
