"""Conditions over all tokens of a list: grammar, values, and pages of what they find."""
