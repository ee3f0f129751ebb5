"""The credit ledger in SQL."""
