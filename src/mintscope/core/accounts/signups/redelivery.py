"""Whether a request is one that was answered already, sent once more by whoever sent it first."""

import hmac
from typing import Final

from mintscope.base.credentials import CredentialHash
from mintscope.base.time import MINUTE_MS

REDELIVERY_MS: Final = 10 * MINUTE_MS


def is_sent_again(
    first: CredentialHash | None, again: CredentialHash | None, *, after_ms: int
) -> bool:
    """Say whether both carry the same redelivery key, *after_ms* being soon enough.

    first, again    hashes of the keys; None where none was sent, which is never the same
    """
    return (
        first is not None
        and again is not None
        and hmac.compare_digest(first, again)
        and after_ms < REDELIVERY_MS
    )
