"""The first page, what of SOL it shows live, and how well the service works."""
