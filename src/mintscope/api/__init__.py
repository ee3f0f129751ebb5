"""The API: its callers, x402 payments, answers and streams."""
