"""Applications of agents, reviews, exchange of the one-time secret."""
