"""What HTTP needs on any route."""
