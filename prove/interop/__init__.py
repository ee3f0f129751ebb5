"""`make interop`: runs new and old clients by other authors against this checkout."""
