"""One page of every benchmark beside its peer, and every recipe with its figure."""
