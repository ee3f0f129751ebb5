"""Types of the parameters of JSON-RPC methods; parameters of another form are refused.

Parameters are positional.  Unknown fields of objects are ignored, as by a node.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Annotated, Final, Literal, TypeVar, get_type_hints

import msgspec
from solders.hash import Hash, ParseHashError
from solders.pubkey import Pubkey
from solders.signature import Signature

from mintscope_devchain.blockstore import CommitmentLevel

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
UNSUPPORTED_VERSION: Final = -32015
TEXT_SHOWN_MAX: Final = 50
HISTORY_MAX: Final = 1_000

Answer = Callable[[Sequence[object]], object]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
T = TypeVar("T")


class RpcError(Exception):
    """A JSON-RPC method refuses its call, with the error *code*, *message* and *data*."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def table(answers: Mapping[str, Callable[..., object]]) -> Mapping[str, Answer]:
    """Return *answers*, functions by JSON-RPC method; each then checks its parameters.

    The types of the parameters are those in the Python signature of an answer.
    """
    return {name: _checked(answer) for name, answer in answers.items()}


def _checked(answer: Callable[..., object]) -> Answer:
    hints = get_type_hints(answer, include_extras=True)
    fields = [
        (name, hints[name])
        if parameter.default is Parameter.empty
        else (name, hints[name], parameter.default)
        for name, parameter in signature(answer).parameters.items()
    ]
    kind = msgspec.defstruct("Params", fields, array_like=True, forbid_unknown_fields=True)
    return lambda params: answer(*msgspec.structs.astuple(_convert(params, kind)))


def _convert(params: Sequence[object], kind: type[T]) -> T:
    """Convert the parameters of a JSON-RPC call to *kind*, a struct type.

    Raises RpcError if *params* do not fit; its message names the invalid part and what is expected.
    """
    try:
        return msgspec.convert([_said(each) for each in params], kind, dec_hook=_from_text)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


def _said(value: object) -> object:
    """Return *value* without its null options, which some clients send instead of omitting them."""
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


def final_params(
    params: Sequence[object], fault: Literal["refused", "finalized"]
) -> Sequence[object]:
    """Return *params* with `finalized` in place of `confirmed`.

    If *fault* is "refused" and *params* contain `confirmed`, raise RpcError instead, with the
    message that a node sends for a level that it does not know.
    """
    levels = "commitment", "preflightCommitment"
    changed: list[object] = []
    for each in params:
        if not isinstance(each, dict):
            changed.append(each)
            continue
        named = [key for key in levels if each.get(key) == "confirmed"]
        if named and fault == "refused":
            said = "unknown variant `confirmed`, expected `processed` or `finalized`"
            raise RpcError(INVALID_PARAMS, f"Invalid params: {said}.")
        changed.append({**each, **dict.fromkeys(named, "finalized")})
    return changed


def confirmed(level: CommitmentLevel | None) -> CommitmentLevel:
    """Return *level* as a commitment, or `finalized` if it is None; raise RpcError for `processed`.

    This is for RPC methods that do not read processed blocks.
    """
    if level == "processed":
        raise RpcError(INVALID_PARAMS, "Method does not support commitment below `confirmed`")
    return level or "finalized"


def unsupported_version() -> RpcError:
    """Return the error for a client that requests a versioned transaction, but accepts none."""
    return RpcError(
        UNSUPPORTED_VERSION,
        "Transaction version (0) is not supported by the requesting client. Please try the"
        " request again with the following configuration parameter:"
        ' "maxSupportedTransactionVersion": 0',
    )


class _Options(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class ContextOptions(_Options, frozen=True, kw_only=True):
    """Options of most RPC methods: a commitment, and the least slot of the node's state."""

    commitment: CommitmentLevel | None = None
    min_context_slot: Natural | None = None


class BlockOptions(_Options, frozen=True, kw_only=True):
    """The options of the RPC method getBlock."""

    commitment: CommitmentLevel | None = None
    encoding: str = "json"
    transaction_details: str = "full"
    max_supported_transaction_version: int | None = None
    rewards: bool = True


class Slice(_Options, frozen=True, kw_only=True):
    """The bytes of an account's data to return, as in the option `dataSlice` of Solana's RPC."""

    offset: Natural
    length: Natural


class AccountOptions(ContextOptions, frozen=True, kw_only=True):
    """Options of getAccountInfo and similar methods: the encoding, and a part of the data."""

    encoding: Literal["base58", "base64", "jsonParsed"] | None = None
    data_slice: Slice | None = None


class TransactionOptions(ContextOptions, frozen=True, kw_only=True):
    """Options of getTransaction: the encoding, and the newest version that the client accepts."""

    encoding: Literal["json", "base58", "base64"] | None = None
    max_supported_transaction_version: Natural | None = None


class SendOptions(_Options, frozen=True, kw_only=True):
    """The options of the RPC method sendTransaction."""

    encoding: Literal["base58", "base64"] = "base58"
    skip_preflight: bool = False
    preflight_commitment: CommitmentLevel | None = None
    max_retries: Natural | None = None
    min_context_slot: Natural | None = None


class SimulatedAccounts(_Options, frozen=True, kw_only=True):
    """The option `accounts` of simulateTransaction: accounts to return after the transaction."""

    addresses: list[Pubkey]
    encoding: Literal["base64", "jsonParsed"] = "base64"


class SimulateOptions(ContextOptions, frozen=True, kw_only=True):
    """The options of the RPC method simulateTransaction."""

    encoding: Literal["base58", "base64"] = "base58"
    sig_verify: bool = False
    replace_recent_blockhash: bool = False
    accounts: SimulatedAccounts | None = None
    inner_instructions: bool = False


class StatusOptions(_Options, frozen=True, kw_only=True):
    """The options of the RPC method getSignatureStatuses."""

    search_transaction_history: bool = False


class HistoryOptions(ContextOptions, frozen=True, kw_only=True):
    """Options of getSignaturesForAddress: how many transactions, before and until which one."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_MAX)] = HISTORY_MAX
    before: Signature | None = None
    until: Signature | None = None


class TokenFilter(_Options, frozen=True, kw_only=True):
    """The filter of getTokenAccountsByOwner: the accounts of a mint, or of a token program."""

    mint: Pubkey | None = None
    program_id: Pubkey | None = None
