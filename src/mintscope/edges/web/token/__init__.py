"""The page of one token: what is known of it, whom it is shown to, and what changes."""
