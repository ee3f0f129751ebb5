"""Watchlists as pages: what /v1/groups does for programs, for people."""
