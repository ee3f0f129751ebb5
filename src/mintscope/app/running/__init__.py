"""Starts, stops and reloads the processes of the service, and logs; runs demo and devchain."""
