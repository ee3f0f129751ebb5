"""The processes of the service: start, stop, reload and log; the demo and its devchain."""
