"""Parts that both clients share: requests, reading of responses, and retries.

Nothing here does I/O: a call is data, and a conversation yields requests and pauses.
"""
