"""Payments over x402: demands for payment, the facilitator, checkout, audits, prices."""
