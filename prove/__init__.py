"""Proofs: recipes with broken builds that they must catch, fuzzing, mutation, and the report."""
