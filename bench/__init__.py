"""Benchmarks: each figure is measured beside a peer, in one run."""
