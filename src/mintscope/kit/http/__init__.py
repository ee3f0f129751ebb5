"""HTTP for any route: connections, routes, requests, responses, limits."""
