"""JSON over HTTP: the routes of the specification."""
