"""Transactions and messages as callers send them: text in, sound objects out."""

import binascii
from base64 import b64decode
from typing import Final, Literal

from based58 import b58decode
from solders.message import from_bytes_versioned
from solders.transaction import SanitizeError, VersionedTransaction

from mintscope.devchain.methods.rpc import INVALID_PARAMS, RpcError
from mintscope.devchain.svm.keys import AnyMessage

Encoding = Literal["base58", "base64"]

TRANSACTION_BYTES_MAX: Final = 1_232


def read_transaction(text: str, encoding: Encoding) -> VersionedTransaction:
    """Return the transaction in *text*, whose indices and counts fit; signatures unchecked.

    Raises RpcError.
    """
    data = _read(text, encoding)
    if len(data) > TRANSACTION_BYTES_MAX:
        raise _refused(
            f"decoded transaction too large: {len(data)} bytes (max: {TRANSACTION_BYTES_MAX} bytes)"
        )
    try:
        transaction = VersionedTransaction.from_bytes(data)
        transaction.sanitize()
    except (ValueError, SanitizeError) as error:
        raise _refused(f"invalid transaction: {error}") from None
    if bytes(transaction) != data:
        raise _refused("invalid transaction: bytes remain after its end")
    return transaction


def read_message(text: str) -> AnyMessage:
    """Return the message in the base64 *text*.

    Raises RpcError.
    """
    try:
        return from_bytes_versioned(_read(text, "base64"))
    except ValueError as error:
        raise _refused(f"invalid message: {error}") from None


def _read(text: str, encoding: Encoding) -> bytes:
    try:
        if encoding == "base58":
            return bytes(b58decode(text.encode()))
        return b64decode(text.encode(), validate=True)
    except (ValueError, binascii.Error) as error:
        raise _refused(f"invalid {encoding} encoding: {error}") from None


def _refused(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, f"Invalid params: {message}")
