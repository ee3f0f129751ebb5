"""Payments over x402: payment requirements, the facilitator, checkout, audits, prices."""
