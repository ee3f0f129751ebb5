"""HTTP for any route: protocol, routes, request, response, limits."""
