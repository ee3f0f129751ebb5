"""Alerts as pages: what /v1/signals does for programs, for people."""
