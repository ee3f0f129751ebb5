"""Applications of agents: from the sign-up to the API key."""
