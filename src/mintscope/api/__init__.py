"""The API: callers, x402, answers, streams."""
