"""The documentation as pages: what the description of the API says, for people."""
