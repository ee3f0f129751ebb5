"""HTTP/1.1 with a bound on everything that a client decides."""
