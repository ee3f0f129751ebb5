"""The blocks of a devchain as a Yellowstone gRPC stream."""
