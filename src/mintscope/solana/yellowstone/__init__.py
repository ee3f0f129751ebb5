"""The gRPC stream of Yellowstone, with its .proto files and the stubs generated from them."""
