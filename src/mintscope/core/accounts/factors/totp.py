"""Codes by time (RFC 6238): six digits, SHA-1, thirty seconds, as every authenticator app has them.

A code is accepted once, also one step before or after: clocks of phones are not exact.
"""

import hmac
from base64 import b32encode
from typing import Final
from urllib.parse import quote, urlencode

from mintscope.base.primitives import UnixMs
from mintscope.base.time import SECOND_MS

DIGITS: Final = 6
STEP_MS: Final = 30 * SECOND_MS
DRIFT_STEPS: Final = 1
OFFSET_MASK: Final = 0x0F
SIGN_MASK: Final = 0x7FFF_FFFF


def step_of(at: UnixMs) -> int:
    """Return the number of the thirty seconds that *at* lies in."""
    return at // STEP_MS


def code_at(secret: bytes, step: int, *, digits: int = DIGITS) -> str:
    """Return the code of *step* (RFC 4226, 5.3)."""
    digest = hmac.digest(secret, step.to_bytes(8), "sha1")
    offset = digest[-1] & OFFSET_MASK
    number = int.from_bytes(digest[offset : offset + 4]) & SIGN_MASK
    return f"{number % 10**digits:0{digits}d}"


def matching_step(secret: bytes, code: str, at: UnixMs, *, after: int) -> int | None:
    """Return the step near *at* whose code *code* is, None if it is of none.

    Only steps after *after*, the one whose code was accepted last: a code is good once.
    """
    now = step_of(at)
    found = None
    for step in range(now - DRIFT_STEPS, now + DRIFT_STEPS + 1):
        # Every step is compared, so that the time taken reveals nothing.
        is_its = hmac.compare_digest(code_at(secret, step).encode(), code.encode())
        if is_its and step > after and found is None:
            found = step
    return found


def secret_text(secret: bytes) -> str:
    """Return *secret* as people type it into an app: base32, in groups of four."""
    text = b32encode(secret).rstrip(b"=").decode()
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def app_address(secret: bytes, *, issuer: str, name: str) -> str:
    """Return the address that apps read from a QR code; *name* is that of the account."""
    label = quote(f"{issuer}:{name}", safe="@:")
    text = b32encode(secret).rstrip(b"=").decode()
    fields = {"secret": text, "issuer": issuer, "algorithm": "SHA1", "digits": DIGITS, "period": 30}
    return f"otpauth://totp/{label}?{urlencode(fields, quote_via=quote)}"
