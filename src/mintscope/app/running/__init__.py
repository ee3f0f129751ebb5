"""Processes: start, stop, reload, log."""
