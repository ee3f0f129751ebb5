"""The embedded store: apsw, write-ahead log, one writer a file."""
