"""Open pages that are told of changes: how many there may be, and one computation for all."""
