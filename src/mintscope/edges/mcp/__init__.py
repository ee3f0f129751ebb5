"""The API for MCP clients: each tool is a request to it, so that there is one path for money."""
