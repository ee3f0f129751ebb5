"""Blocks from the gRPC stream of a node with Yellowstone."""
