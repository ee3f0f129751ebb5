"""Whom a TLS connection may be opened to."""

import ssl
from functools import cache

import httpx


@cache
def trusted_roots() -> ssl.SSLContext:
    """Return the context of every client: reading the certificates takes 20 ms, once a process."""
    return httpx.create_ssl_context()
