"""Proofs: claims whose tests must catch broken builds, fuzzing, mutation testing, and a report."""
