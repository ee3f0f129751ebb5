"""Documents that let programs discover the API."""
