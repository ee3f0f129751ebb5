"""Parts that the blocking and the asyncio client share: requests, reading of responses, retries.

Nothing here does I/O: a call is data, and the generator `converse` yields the requests to send and
the pauses to make.
"""
