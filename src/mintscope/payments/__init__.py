"""The payments feature, by x402: demands, the facilitator, checkout, audits, prices."""
