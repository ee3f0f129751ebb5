"""The report: one page with every benchmark and its peers, and every recipe with its result."""
