"""Pools that the older recorded expectations leave open, because a later reading names them.

The expectations of 2026 name Pancake's pool at the third account of a swap; these are that account
of the two older ones.
"""

from typing import Any, Final

POOL_OF: Final = {
    "5acNq9XFxMxEzLWTR7hC2v6iNGbXxwChqR5mP2KkfkLvB6LAzTMpVDNSY7yaq4EbU7ypywKtpfLZgLQqDnwfeX8P": (
        "GtpsrTHYnfFVm3qkPJtyKVwQLpXT7p2MRy9bp5hYeJnQ"
    ),
    "s5sthr57drUS4gyg5SVaCrbXnAEE584BYBGaYgKRMkUgERZupJ9KxN3cQ8RDR1cNiASjuTM5svQWiCGL5V5Ds4y": (
        "2mV68czKxnQB5AhCA96eyBtisWQkv6Skzhcak7fffvFo"
    ),
}


def with_pool(line: dict[str, Any]) -> dict[str, Any]:
    """Return the expected *line* with the pool that it leaves open."""
    if line["program"] == "pancake_clmm" and line["pool"] is None:
        return {**line, "pool": POOL_OF[line["signature"]]}
    return line
