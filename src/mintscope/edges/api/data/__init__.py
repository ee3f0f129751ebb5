"""Market data by the page: what was asked for in a query, and endpoints that answer it."""
