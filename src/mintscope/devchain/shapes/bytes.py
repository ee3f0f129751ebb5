"""Little-endian fields and Anchor discriminators."""

from functools import cache
from hashlib import sha256
from typing import Final

from mintscope.devchain.addresses import raw
from mintscope.devchain.transaction import Call

SELF_CALL: Final = bytes.fromhex("e445a52e51cb9a1d")


def u8(value: int) -> bytes:
    """Return *value* in one byte."""
    return value.to_bytes(1, "little")


def u16(value: int) -> bytes:
    """Return *value* in two bytes."""
    return value.to_bytes(2, "little")


def u32(value: int) -> bytes:
    """Return *value* in four bytes."""
    return value.to_bytes(4, "little")


def i32(value: int) -> bytes:
    """Return the signed *value* in four bytes."""
    return value.to_bytes(4, "little", signed=True)


def u64(*values: int) -> bytes:
    """Return *values* in eight bytes each."""
    return b"".join(value.to_bytes(8, "little") for value in values)


def u128(value: int) -> bytes:
    """Return *value* in sixteen bytes."""
    return value.to_bytes(16, "little")


def keys(*public_keys: str) -> bytes:
    """Return *public_keys* in 32 bytes each."""
    return b"".join(map(raw, public_keys))


def string(value: str) -> bytes:
    """Return *value* behind its length."""
    return u32(len(value)) + value.encode()


@cache
def instruction(name: str) -> bytes:
    """Return the discriminator of the Anchor instruction *name*."""
    return sha256(f"global:{name}".encode()).digest()[:8]


@cache
def event(name: str) -> bytes:
    """Return the discriminator of the Anchor event *name*."""
    return sha256(f"event:{name}".encode()).digest()[:8]


def emit(program: str, authority: str, data: bytes) -> Call:
    """Return the call by which *program* tells itself about an event."""
    return Call(program, (authority,), SELF_CALL + data)
