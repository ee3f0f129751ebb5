"""Benchmarks: each figure is measured in the same run as that of a peer."""
