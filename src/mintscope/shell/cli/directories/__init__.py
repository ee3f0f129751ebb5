"""What directories of services read: how it looks, and the files that they ask for."""
