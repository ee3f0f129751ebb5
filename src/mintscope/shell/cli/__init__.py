"""The command line: arguments in, objects out."""
