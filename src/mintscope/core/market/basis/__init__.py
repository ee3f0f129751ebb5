"""What a price rests on, and how good it is for that."""
