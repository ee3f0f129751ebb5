"""The incremental engine: states, kernels and the two folds over the swap log."""
