"""Blocks from a gRPC stream."""
