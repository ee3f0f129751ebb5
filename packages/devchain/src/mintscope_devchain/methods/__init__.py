"""The JSON-RPC methods that need accounts and transactions."""
