"""Web pages: shared base, charts, front page and status page."""
