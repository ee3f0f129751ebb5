"""Directories of services: their view of the service, and the files that they ask for."""
