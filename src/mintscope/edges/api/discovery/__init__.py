"""How programs and directories find the service: what it serves beside its API."""
