"""What callers may pass, as types, and the refusal when they pass something else.

Parameters come by position; a struct names them.  Objects may have fields we do
not know: clients send more than the chain reads.
"""

from collections.abc import Callable
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey
from solders.signature import Signature

from mintscope.devchain.methods.rpc import INVALID_PARAMS, Answer, RpcError
from mintscope.devchain.svm.vm import Commitment

TEXT_SHOWN_MAX: Final = 50
TRANSACTION_TEXT_MAX: Final = 1_700  # characters; 1,232 bytes in base64 are 1,644
ADDRESSES_MAX: Final = 100
SIGNATURES_MAX: Final = 256
HISTORY_MAX: Final = 1_000

U64 = Annotated[int, msgspec.Meta(ge=0)]
T = TypeVar("T")


def convert(params: object, kind: type[T]) -> T:
    """Return *params* as *kind*.

    Raises RpcError, naming the place and what was expected there.
    """
    try:
        given = [_said(each) for each in params] if isinstance(params, list) else params or []
        return msgspec.convert(given, kind, dec_hook=_from_text)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


def method(kind: type[T], answer: Callable[[T], object]) -> Answer:
    """Return *answer* as a method that takes unchecked parameters."""
    return lambda params: answer(convert(params, kind))


def _said(value: object) -> object:
    """Return *value* without the options that clients send as null to leave them out."""
    if isinstance(value, dict):
        return {name: _said(each) for name, each in value.items() if each is not None}
    return value


def _from_text(kind: type, value: object) -> object:
    assert kind in (Pubkey, Hash, Signature)
    size = Signature.LENGTH if kind is Signature else Pubkey.LENGTH
    try:
        return kind.from_string(value if isinstance(value, str) else "")
    except (ValueError, ParseHashError):
        shown = repr(value)[:TEXT_SHOWN_MAX]
        raise ValueError(f"Expected base58 of {size} bytes, was {shown}") from None


class Positional(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Parameters in their order."""


class _Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Config(_Object, frozen=True, kw_only=True):
    """Which block the caller wants to be told about."""

    commitment: Commitment | None = None
    min_context_slot: U64 | None = None


class Slice(_Object, frozen=True, kw_only=True):
    """Part of an account's data."""

    offset: U64
    length: U64


class AccountConfig(Config, frozen=True, kw_only=True):
    """How accounts shall be shown."""

    encoding: Literal["base58", "base64", "jsonParsed"] | None = None
    data_slice: Slice | None = None


class TransactionConfig(Config, frozen=True, kw_only=True):
    """How a landed transaction shall be shown."""

    encoding: Literal["json", "base58", "base64"] | None = None
    max_supported_transaction_version: U64 | None = None


class SendConfig(_Object, frozen=True, kw_only=True):
    """How a transaction shall be sent."""

    encoding: Literal["base58", "base64"] | None = None
    skip_preflight: bool = False
    preflight_commitment: Commitment | None = None
    max_retries: U64 | None = None
    min_context_slot: U64 | None = None


class SimulatedAccounts(_Object, frozen=True, kw_only=True):
    """Accounts to show as the simulation leaves them."""

    addresses: list[Pubkey]
    encoding: Literal["base64", "jsonParsed"] | None = None


class SimulateConfig(Config, frozen=True, kw_only=True):
    """How a transaction shall be simulated."""

    encoding: Literal["base58", "base64"] | None = None
    sig_verify: bool = False
    replace_recent_blockhash: bool = False
    accounts: SimulatedAccounts | None = None
    inner_instructions: bool = False


class StatusConfig(_Object, frozen=True, kw_only=True):
    """How far back to look for a signature."""

    search_transaction_history: bool = False


class HistoryConfig(Config, frozen=True, kw_only=True):
    """Which part of an address's history is wanted, newest first."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_MAX)] = HISTORY_MAX
    before: Signature | None = None
    until: Signature | None = None


class TokenFilter(_Object, frozen=True, kw_only=True):
    """Which token accounts: those of a mint, or those of a token program."""

    mint: Pubkey | None = None
    program_id: Pubkey | None = None


class OnlyConfig(Positional, frozen=True):
    """Only the configuration."""

    config: Config | None = None
