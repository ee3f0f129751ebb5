"""The price of a mint from those of its pools."""
