"""The API described: its operations, and what is made of them for programs."""
