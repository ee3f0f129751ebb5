"""Reads Solana keypairs as `solana-keygen` and wallets write them."""

from pathlib import Path
from typing import Final

import msgspec
from solders.keypair import Keypair

FILE_BYTES_MAX: Final = 4_096
EXPECTED: Final = "expected a Solana keypair: a JSON list of 64 numbers, or base58"


class UnusableKeypair(ValueError):
    """A text is no usable keypair; the message names the expected form, and never quotes it."""


def parse_keypair(text: str) -> Keypair:
    """Return the Solana keypair in *text*: base58, or a JSON list of 64 bytes.

    Raises UnusableKeypair for any other text.
    """
    try:
        if text.lstrip().startswith("["):
            return Keypair.from_bytes(bytes(msgspec.json.decode(text, type=list[int])))
        return Keypair.from_base58_string(text.strip())
    except Exception:  # noqa: BLE001 - errors of several types; no such text is a key
        raise UnusableKeypair(EXPECTED) from None


def read_keypair(path: Path) -> Keypair:
    """Return the Solana keypair in the file at *path*.  Raises UnusableKeypair."""
    where = f"expected a Solana keypair file at {path}"
    try:
        with path.open(encoding="utf-8") as file:
            return parse_keypair(file.read(FILE_BYTES_MAX))
    except OSError as cause:
        raise UnusableKeypair(f"{where}; it cannot be read: {cause.strerror}") from cause
    except (UnusableKeypair, UnicodeDecodeError) as cause:
        raise UnusableKeypair(f"{where}: a JSON list of 64 numbers, or base58") from cause
