"""HTTP for all routes."""
