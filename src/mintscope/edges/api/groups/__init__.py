"""The routes of watchlists: /v1/groups."""
