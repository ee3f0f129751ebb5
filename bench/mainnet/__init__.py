"""Ingest and api at the load of mainnet, with a node of this benchmark: `make mainnet`."""
