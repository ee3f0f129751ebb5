"""Web pages: shared base, charts, front page, documentation, status page."""
