"""Applications of agents, their reviews, and the exchange of the application secret."""
