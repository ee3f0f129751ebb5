"""The routes under /v1/credits."""
