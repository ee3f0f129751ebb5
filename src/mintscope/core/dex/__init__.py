"""Program bytes to swaps.  Pure."""
