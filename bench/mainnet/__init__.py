"""Ingest and api at the load of mainnet, beside a node of our own: `make mainnet`."""
