"""MCP: at /mcp of an api process, and on standard input and output."""
