"""What differs with the engine that is configured."""
