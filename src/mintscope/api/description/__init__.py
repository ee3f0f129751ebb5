"""OpenAPI of the API."""
