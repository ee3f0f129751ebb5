"""Benchmarks; the figures of mintscope and of a peer, if there is one, are measured in one run."""
