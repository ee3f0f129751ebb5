"""The books of payments: invariants, the treasury and the audit."""
