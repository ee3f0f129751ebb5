"""Open pages that follow changes: how many there may be, and one computation for all."""
