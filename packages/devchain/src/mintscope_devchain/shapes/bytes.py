"""Encodes little-endian fields, and the instructions and events of Anchor programs."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from struct import pack
from typing import Final

from mintscope_devchain.addresses import raw
from mintscope_devchain.transaction import Invocation

# Anchor's EVENT_IX_TAG: with this tag, a program calls itself to publish an event
SELF_CALL: Final = bytes.fromhex("e445a52e51cb9a1d")


def _integers(code: str) -> Callable[..., bytes]:
    """Return a function that encodes integers in the `struct` format *code*, little-endian."""
    return lambda *values: pack(f"<{len(values)}{code}", *values)


u8, u16, u32, u64, i32 = map(_integers, "BHIQi")


def u128(*values: int) -> bytes:
    """Return *values* in 16 bytes each, little-endian, one after the other."""
    return b"".join([value.to_bytes(16, "little") for value in values])


def keys(*public_keys: str) -> bytes:
    """Return the bytes of *public_keys*, in base58, one after the other: 32 for each key."""
    return b"".join(map(raw, public_keys))


def string(value: str) -> bytes:
    """Return *value* in UTF-8, after its length in bytes as a u32."""
    text = value.encode()
    return u32(len(text)) + text


@cache
def instruction(name: str) -> bytes:
    """Return the eight bytes with which the data of the Anchor instruction *name* begins."""
    return sha256(f"global:{name}".encode()).digest()[:8]


@cache
def event(name: str) -> bytes:
    """Return the eight bytes with which the data of the Anchor event *name* begins."""
    return sha256(f"event:{name}".encode()).digest()[:8]


def emit(program: str, authority: str, data: bytes) -> Invocation:
    """Return the call by which an Anchor program calls itself to publish the event *data*."""
    return Invocation(program, (authority,), SELF_CALL + data)


def anchor(program: str, name: str, accounts: tuple[str, ...], data: bytes) -> Invocation:
    """Return the instruction *name* of an Anchor program."""
    says = f"Instruction: {name.title().replace('_', '')}"
    return Invocation(program, accounts, instruction(name) + data, says)
