"""A benchmark of growth: the same steps on stores of three ages, on both engines."""
