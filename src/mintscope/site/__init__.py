"""Pages for people: their base, charts, front page, status."""
