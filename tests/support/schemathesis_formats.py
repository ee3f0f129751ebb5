"""Texts of the formats that the description names, for Schemathesis, which loads this by its path.

It stands alone: Schemathesis runs in a process of its own.
"""

from typing import Any

import schemathesis
from based58 import b58encode
from hypothesis import strategies as st

USED = [  # of the scene, beside addresses that no one has
    "So11111111111111111111111111111111111111112",
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
]
addresses = st.sampled_from(USED) | st.binary(min_size=32, max_size=32).map(
    lambda raw: b58encode(raw).decode()
)
schemathesis.openapi.format("solana-address", addresses)
schemathesis.openapi.format(
    "solana-signature",
    st.binary(min_size=64, max_size=64).map(lambda raw: b58encode(raw).decode()),
)
schemathesis.openapi.format(
    "email", st.from_regex(r"[a-z][a-z0-9]{0,20}@example\.(org|com)", fullmatch=True)
)


@schemathesis.hook
def map_query(_context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave made-up cursors out: a cursor comes from an answer."""
    return {name: value for name, value in query.items() if name != "cursor"} if query else query
