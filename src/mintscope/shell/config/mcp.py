"""The configuration of MCP."""

from mintscope.shell.config.sections import Section


class McpConfig(Section):
    """The API for MCP clients, at /mcp on the listener of the api."""

    enabled: bool = True
    """Serve MCP clients, if the extra `mcp` is installed."""
