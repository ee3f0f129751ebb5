"""The clients that the service hands out itself, so that nothing must be published first."""
