"""Documents by which programs find the API."""
