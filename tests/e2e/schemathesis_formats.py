"""Values for formats in the API description; Schemathesis loads this module by its path.

It imports nothing from the tests, because Schemathesis runs in a separate process.
"""

import gc
from typing import Any

import schemathesis
from based58 import b58encode
from hypothesis import strategies as st

USED = [  # mints that the tested service tracks
    "So11111111111111111111111111111111111111112",
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
]
PRINTABLE = ("name", "telegram", "twitter")
# Each collection of garbage calls Hypothesis, and there are many small objects.
gc.freeze()
gc.set_threshold(10_000)
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


schemathesis.openapi.format(
    "webhook-url",
    st.from_regex(
        r"https://[a-z][a-z0-9]{0,20}\.(org|com)(:8443)?(/[a-z]{1,9}){0,3}", fullmatch=True
    ),
)


@schemathesis.hook
def before_call(_context: Any, case: schemathesis.Case[Any], _kwargs: dict[str, Any]) -> None:
    """In valid requests, remove or replace values that cannot be generated from a description.

    A cursor comes from an answer, a payment from a wallet, and `from` must not be after `to`.  For
    Schemathesis, \\p{C} has fewer characters than for the service, so texts are filtered.
    """
    if case.meta is not None and case.meta.generation.mode.is_positive:
        for sent in (case.query, case.headers):
            for name in ("cursor", "PAYMENT-SIGNATURE"):
                if sent and name in sent:
                    del sent[name]
        for name in PRINTABLE:
            text = case.body.get(name) if isinstance(case.body, dict) else None
            if isinstance(case.body, dict) and isinstance(text, str):
                case.body[name] = "".join(filter(str.isprintable, text)).strip() or "a"
        if case.query and {"from", "to"} <= case.query.keys():
            case.query |= zip(
                ("from", "to"), sorted((case.query["from"], case.query["to"])), strict=True
            )
