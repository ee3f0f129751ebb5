"""The list of all tokens that are followed: what it shows of each, sorted and searched."""
