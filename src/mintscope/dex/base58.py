"""Base58 decoding of short and of long instructions, such as transfers and events.

A native library decodes the most frequent instructions, of a dozen bytes, in a quarter of a
microsecond.  It is quadratic: for an event of 400 bytes it takes 50 us, and the kernel here 2.5 us.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from based58 import b58decode
from numpy.typing import NDArray

from mintscope.dex.outcome import QuarantineReason, Unreadable
from mintscope.kit.compiled import kernel
from mintscope.solana.transaction import Instruction

ALPHABET: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SHORT_MAX: Final = 60
# A CPI carries at most 10 KiB, which is 13,985 digits; anything longer is not an instruction.
LENGTH_MAX: Final = 14_000
HEAD_SIZE: Final = 8
# By the size of a head: 13 digits (over 76 bits) determine 8 bytes, with rare exceptions.  A head
# of 1 byte precedes amounts, which more digits would distinguish in vain.
HEAD_DIGITS: Final = {1: 2, HEAD_SIZE: 13}
DIGITS_A_STEP: Final = 5  # 58 ** 5 is the largest power that keeps limb * power inside 64 bits
BASE: Final = np.uint64(58)
POWER: Final = np.uint64(58**DIGITS_A_STEP)
HALF: Final = np.uint64(32)
LOW_HALF: Final = np.uint64(2**32 - 1)
NOT_A_DIGIT: Final = np.uint64(255)

VALUES: Final = np.full(256, NOT_A_DIGIT, np.uint64)
VALUES[list(ALPHABET)] = np.arange(len(ALPHABET))


def decode(text: str | bytes) -> bytes:
    """Return the decoded bytes of *text*; bytes are returned unchanged.

    Raises Unreadable for a character outside the alphabet, or too many of them.
    """
    if not isinstance(text, str):
        return text
    if len(text) <= SHORT_MAX:
        try:
            return b58decode(text.encode())
        except ValueError:
            raise Unreadable(QuarantineReason.BAD_BASE58) from None
    if len(text) > LENGTH_MAX:
        raise Unreadable(QuarantineReason.BAD_BASE58)
    out = np.empty(len(text), np.uint8)
    length = convert(text.encode(), out)
    if length < 0:
        raise Unreadable(QuarantineReason.BAD_BASE58)
    return out[:length].tobytes()


def data_of(instruction: Instruction) -> bytes:
    """Return the data of *instruction* as bytes, and store it in this form.

    Several readers use the same transfers and events, so base58 is decoded once.
    Raises Unreadable as `decode` does.
    """
    data = instruction.data
    if isinstance(data, str):
        data = instruction.data = decode(data)
    return data


@lru_cache(maxsize=16_384)
def common_head(first: str, length: int, size: int) -> bytes | None:
    """Return the leading *size* bytes common to all texts of *length* that start with *first*.

    None if the lowest and the highest such text differ.
    """
    rest = length - len(first)
    low = decode(first + "1" * rest)
    high = decode(first + "z" * rest)
    is_sure = len(low) == len(high) and low[:size] == high[:size]
    return low[:size] if is_sure else None


def head(text: str | bytes, size: int = HEAD_SIZE) -> bytes:
    """Return the first *size* bytes of `decode(text)`, 1 or 8; all bytes if there are fewer.

    The same few instructions recur with different amounts, so the bytes of their first digits are
    cached.
    """
    digits = HEAD_DIGITS[size]
    if isinstance(text, str) and len(text) > digits:
        known = common_head(text[:digits], len(text), size)
        if known is not None:
            return known
    return decode(text)[:size]


@kernel
def _write(limbs: NDArray[np.uint64], out: NDArray[np.uint8]) -> int:
    """Write the bytes of number *limbs* to *out*, most significant first; return their count."""
    length = 0
    for limb in limbs[::-1]:
        for shift in (24, 16, 8, 0):
            byte = (limb >> np.uint64(shift)) & np.uint64(255)
            if byte or length:  # skip the leading zeros of the top limb
                out[length] = byte
                length += 1
    return length


@kernel
def convert(digits: bytes, out: NDArray[np.uint8]) -> int:
    """Write the bytes of *digits* to *out* and return their count, or -1 for a bad digit."""
    zeros = 0
    while zeros < len(digits) and digits[zeros] == 49:  # noqa: PLR2004 - the digit "1"
        zeros += 1
    limbs = np.zeros(len(digits) // 5 + 2, np.uint64)  # least significant first, 32 bits each
    used = 0
    at = zeros
    while at < len(digits):
        # The first pass takes the digits that do not fill a step, before there are any limbs.
        end = at + ((len(digits) - at) % (2 * DIGITS_A_STEP) or 2 * DIGITS_A_STEP)
        high = low = np.uint64(0)
        for i in range(at, end):
            value = VALUES[digits[i]]
            if value == NOT_A_DIGIT:
                return -1
            if end - i > DIGITS_A_STEP:
                high = high * BASE + value
            else:
                low = low * BASE + value
        # Two steps in one pass, so that the processor computes both carries in parallel.
        for i in range(used):
            product = limbs[i] * POWER + high
            high = product >> HALF
            product = (product & LOW_HALF) * POWER + low
            limbs[i] = product & LOW_HALF
            low = product >> HALF
        rest = high * POWER + low
        while rest:
            limbs[used] = rest & LOW_HALF
            used += 1
            rest >>= HALF
        at = end
    out[:zeros] = 0
    return zeros + _write(limbs[:used], out[zeros:])
