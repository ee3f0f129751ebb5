"""Measures ingest and api under the load of mainnet, with a simulated node: `make mainnet`."""
