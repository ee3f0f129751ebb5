"""Recipes with the broken builds that each must catch; fuzzing; mutation; the report."""
