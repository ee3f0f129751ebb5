"""Pages for people: sign up, sign in, API keys, review."""
