"""The JSON-RPC methods of the devchain."""
