"""The sources of blocks that need more than the usual libraries."""
