"""GET /v1/stream: what changes, as it changes, by the minute."""
