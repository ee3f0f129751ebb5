"""Processes: start, stop, reload, log; the demo and its devchain."""
