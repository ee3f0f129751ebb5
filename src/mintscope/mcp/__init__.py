"""Tools for MCP clients."""
