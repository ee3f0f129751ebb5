"""The report: one page with every benchmark beside its peers, and every recipe with its result."""
