"""The MCP server: the judge, the knowledge base and searches as tools for coding agents. Docs:
docs/mcp.md."""
