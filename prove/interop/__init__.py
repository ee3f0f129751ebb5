"""`make interop`: newest and older clients of others, against a service of this checkout."""
