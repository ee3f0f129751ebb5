"""Applications, people, agents and their API keys: pure rules."""
