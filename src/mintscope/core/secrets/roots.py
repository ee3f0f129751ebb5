"""Roots that took the place of the pepper as what quotes and receipts derive from.

    made:hex    Unix seconds from which it signs, and 64 hexadecimal digits

The pepper stays the key of stored hashes: these cannot be made again without the credentials, and
a thief who knows the pepper and the hashes still knows no credential.
"""

import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from typing_extensions import override

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_S
from mintscope.core.secrets.guessing import flaw_of_key

ROOT_BYTES: Final = 32
KEPT_S: Final = 2 * DAY_S  # answers are given again for one day
EXPECTED: Final = "expected SECONDS:HEX, as `mintscope secrets rotate` prints it"
_FORM: Final = re.compile(r"(\d{1,11}):([0-9a-f]{64})")


class Root(msgspec.Struct, frozen=True, order=True):
    """A root.

    since_s    Unix seconds from which it signs
    secret     32 bytes
    """

    since_s: int
    secret: bytes

    @property
    def since(self) -> UnixMs:
        """When it begins to sign."""
        return UnixMs(self.since_s * 1000)

    @override
    def __str__(self) -> str:
        """Return it as it is kept."""
        return f"{self.since_s}:{self.secret.hex()}"

    __repr__ = object.__repr__  # never the secret


def parse_root(text: str) -> Root:
    """Return the root of *text*.  Raises ValueError, which says nothing of what was there."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(EXPECTED)
    root = Root(int(found[1]), bytes.fromhex(found[2]))
    flaw = flaw_of_key(root.secret)
    if flaw is not None:
        raise ValueError(f"{EXPECTED}; {flaw}")
    return root


def rotated(roots: Iterable[Root], new: Root) -> Sequence[Root]:
    """Return *roots* and *new*, oldest first, without those that nothing was made with lately."""
    found = sorted([*roots, new])
    return [
        root
        for root, newer in zip(found, [*found[1:], None], strict=True)
        if newer is None or newer.since_s > new.since_s - KEPT_S
    ]


def derived(root: bytes, purpose: str) -> bytes:
    """Return the key of *root* for *purpose*, 32 bytes.

    HKDF-SHA-256 (RFC 5869), without a salt: 2.2 extracts, and 2.3 expands to one block.
    """
    extracted = hmac.digest(bytes(ROOT_BYTES), root, "sha256")
    return hmac.digest(extracted, f"mintscope {purpose} 2".encode() + b"\x01", "sha256")
