"""The protocol of Yellowstone gRPC: the vendored .proto files and the generated stubs."""
