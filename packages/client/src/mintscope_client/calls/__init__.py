"""Common parts of both clients: which requests there are, how answers are read, when to try again.

Nothing here does I/O: a call is data, and a conversation yields what to send and how long to wait.
"""
