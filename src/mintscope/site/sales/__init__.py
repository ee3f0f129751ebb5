"""Pages that sell credits."""
