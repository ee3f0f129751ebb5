"""How a page is made: rendering, replies, failures, static files."""
