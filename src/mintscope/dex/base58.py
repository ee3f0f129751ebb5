"""Decodes base58 data of instructions: short data of transfers, and long data of events.

Most instructions have a dozen bytes, which a native library decodes in 0.25 us.  For an event of
400 bytes the library takes 50 us, and the kernel of this module 2 us.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
from based58 import b58decode
from numpy import uint64, zeros
from numpy.typing import NDArray

from mintscope.dex.outcome import QuarantineReason, Unreadable
from mintscope.kit.compiled import StandIn, kernel
from mintscope.solana.transaction import Instruction

ALPHABET: Final = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
SHORT_MAX: Final = 60
# A CPI has at most 10 KiB of data, which is 13,985 digits; anything longer is not an instruction.
LENGTH_MAX: Final = 14_000
HEAD_SIZE: Final = 8
# The number of digits that determine a head, by the size of the head in bytes: 13 digits (over 76
# bits) determine 8 bytes, with rare exceptions.  A head of 1 byte is followed by an amount, so each
# further digit would only add entries to the cache.
HEAD_DIGITS: Final = {1: 2, HEAD_SIZE: 13}
HEAD_SIZES: Final = {digits: size for size, digits in HEAD_DIGITS.items()}
ZERO: Final = b"1"  # each "1" at the start stands for a zero byte
HALF_A_STEP: Final = 5
DIGITS_A_STEP: Final = 2 * HALF_A_STEP  # 58 ** 10 is the largest power of 58 in 64 bits
BASE: Final = np.uint64(58)
HALF_POWER: Final = np.uint64(58**HALF_A_STEP)
POWER: Final = np.uint64(58**DIGITS_A_STEP)
LIMB_BYTES: Final = 8
LIMB_BITS: Final = 64
BYTE: Final = np.uint64(8)  # the number of bits in a byte
LOW_BYTE: Final = np.uint64(255)
NOT_A_DIGIT: Final = np.uint64(64)  # its bit is 0 in the value of every digit

VALUES: Final = np.full(256, NOT_A_DIGIT, np.uint64)
VALUES[list(ALPHABET)] = np.arange(len(ALPHABET))


def decode(text: str | bytes) -> bytes:
    """Return the bytes that *text* encodes, or *text* itself if it is bytes.

    Raises Unreadable if *text* is not base58, or has more than LENGTH_MAX digits.
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
    digits = text.encode()
    steps = -(-len(digits) // DIGITS_A_STEP)
    limbs = zeros(steps, uint64)
    if not convert(digits.rjust(steps * DIGITS_A_STEP, ZERO), limbs):
        raise Unreadable(QuarantineReason.BAD_BASE58)
    number = limbs.tobytes().lstrip(b"\0")
    if text[0] != "1":
        return number
    return bytes(len(digits) - len(digits.lstrip(ZERO))) + number


def data_of(instruction: Instruction) -> bytes:
    """Return the data of *instruction* as bytes, and store the bytes in *instruction*.

    Several readers use the same transfers and events, so base58 is decoded once.
    Raises Unreadable in the same cases as `decode`.
    """
    data = instruction.data
    if isinstance(data, str):
        data = instruction.data = decode(data)
    return data


@lru_cache(maxsize=16_384)
def common_head(first: str, length: int) -> bytes | None:
    """Return the first bytes that all base58 texts with *first* at the start have in common.

    HEAD_SIZES has the number of bytes for each length of *first*.  Return None if the texts do not
    have these bytes, or the size of their data, in common.

    length   the number of digits of a whole text
    """
    size = HEAD_SIZES[len(first)]
    rest = length - len(first)
    # All data in between have the same head if the lowest and the highest have it.
    low = decode(first + "1" * rest)
    high = decode(first + "z" * rest)
    is_sure = len(low) == len(high) and low[:size] == high[:size]
    return low[:size] if is_sure else None


def head(text: str | bytes, size: int = HEAD_SIZE) -> bytes:
    """Return the first *size* bytes (1 or 8) of the base58 *text*, or all if there are fewer.

    Results are cached by the first digits of *text*.  Raises Unreadable if *text* is not base58, or
    has more than LENGTH_MAX digits; an error after the first digits may go unnoticed.
    """
    if isinstance(text, str):
        digits = HEAD_DIGITS[size]
        length = len(text)
        if length > digits:
            known = common_head(text[:digits], length)
            if known is not None:
                return known
    return _decoded(text)[:size]


# Several readers look at the head of each of the 62 calls of a transaction, and one call of 10 KiB
# takes 0.6 ms to decode.
@lru_cache(maxsize=128)
def _decoded(text: str | bytes) -> bytes:
    return decode(text)


def multiply(limb: np.uint64, factor: np.uint64, carry: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the low and the high 64 bits of `limb * factor + carry`."""
    # numba has no number of 128 bits, so compiled code has its own form, see `_compile_multiply`.
    product = int(limb) * int(factor) + int(carry)
    return np.uint64(product % 2**LIMB_BITS), np.uint64(product >> LIMB_BITS)


def _compile_multiply() -> Callable[..., Any]:
    """Return `multiply`, which numba then compiles to one multiplication of the processor."""
    import numba.extending  # noqa: PLC0415 - loads in 0.2 s
    from llvmlite import ir  # noqa: PLC0415 - loads with it

    untyped: Any = numba
    uint64 = untyped.uint64
    limb_type = ir.IntType(LIMB_BITS)
    product_type = ir.IntType(2 * LIMB_BITS)

    def type_of(_context: Any) -> Any:
        return lambda limb, factor, carry: untyped.types.UniTuple(uint64, 2)  # noqa: ARG005 - read

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        limb, factor, carry = (builder.zext(value, product_type) for value in values)
        product = builder.add(builder.mul(limb, factor), carry)
        high = builder.lshr(product, product_type(LIMB_BITS))
        halves = [builder.trunc(half, limb_type) for half in (product, high)]
        return context.make_tuple(builder, signature.return_type, halves)

    untyped.extending.type_callable(multiply)(type_of)
    untyped.extending.lower_builtin(multiply, uint64, uint64, uint64)(generate)
    return multiply


compiled_multiply: Final = StandIn(_compile_multiply)
"""Registers `multiply` with numba when the kernels are made, before the first is compiled."""


@kernel
def convert(digits: bytes, limbs: NDArray[np.uint64]) -> bool:
    """Write the number that *digits* express to *limbs*, which must all be 0 before.

    The number of *digits* must be a multiple of DIGITS_A_STEP.  The bytes are stored with the most
    significant first, like the digits.  Returns False if a digit is not in the alphabet.
    """
    used = 0  # number of limbs in use; the least significant limb is first
    for at in range(0, len(digits), DIGITS_A_STEP):
        # The two halves are computed as two numbers at the same time, because each product of one
        # number has to wait for the product before it.
        high = low = all_bits = np.uint64(0)
        for i in range(at, at + HALF_A_STEP):
            first = VALUES[digits[i]]
            second = VALUES[digits[i + HALF_A_STEP]]
            high = high * BASE + first
            low = low * BASE + second
            all_bits |= first | second
        if all_bits >= NOT_A_DIGIT:
            return False
        carry = high * HALF_POWER + low
        for i in range(used):
            limbs[i], carry = multiply(limbs[i], POWER, carry)
        if carry:
            limbs[used] = carry
            used += 1
    # So far, the lowest limb and byte are first; the result has the most significant first.
    limbs[:] = limbs[::-1].copy()
    for i in range(len(limbs)):
        rest = limbs[i]
        reverse = np.uint64(0)
        for _ in range(LIMB_BYTES):
            reverse = reverse << BYTE | rest & LOW_BYTE
            rest >>= BYTE
        limbs[i] = reverse
    return True
