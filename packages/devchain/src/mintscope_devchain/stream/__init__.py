"""The chain over Yellowstone gRPC."""
