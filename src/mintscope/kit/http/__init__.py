"""HTTP on any route: protocol, routes, request, response, limits."""
