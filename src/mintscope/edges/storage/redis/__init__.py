"""Redis or Valkey: what processes count together, if operators want that off the database."""
