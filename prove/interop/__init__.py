"""`make interop`: newest and older clients by other authors, against a service of this checkout."""
