"""The documentation pages."""
