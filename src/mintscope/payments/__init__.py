"""Payments by x402: demand, facilitator, checkout, audit, prices."""
