"""Watchlists: rules, store, API, pages."""
