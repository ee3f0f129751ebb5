"""`make interop`: clients that others wrote, newest and older, at a service of this checkout."""
