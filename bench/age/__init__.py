"""Benchmark of growth: the same steps on stores of three sizes (ages), on both engines."""
