"""The gRPC stream of Yellowstone, its .proto files, and the modules generated from them."""
