"""Whether anything grows worse than the store: the same steps at three ages, on both engines."""
