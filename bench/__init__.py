"""Figures, each beside the peer it is compared with, taken in one run."""
