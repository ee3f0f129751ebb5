"""The report on proofs: one page with all benchmarks, their peers, and the proven claims."""
