"""What a buyer asks a Solana node: a blockhash to sign with, and what became of a payment.

Each is a dialogue: it yields requests and is sent their answers, so that
it serves `httpx.Client` and `httpx.AsyncClient` alike.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, Final, TypeVar

import httpx
import msgspec

from mintscope.base.foreign import Undecodable, decode_json
from mintscope.base.pace import BLOCKHASH_BLOCKS
from mintscope.client.journal import Sent

Answer = TypeVar("Answer")
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # of slots and blocks
Dialogue = Generator[httpx.Request, httpx.Response, Answer]

# Nodes behind one address stand at different heights.
NODES_APART_BLOCKS: Final = 32
PAGE: Final = 1_000  # the most that one answer holds
PAGES_MAX: Final = 20


class PaymentFate(Enum):
    """What the chain proves about a payment."""

    OPEN = auto()  # nothing: it may still land
    PAID = auto()  # it landed, for good
    DEAD = auto()  # it did not, and cannot any more


class NodeSilent(Exception):
    """The node gave no answer that can be used."""


@dataclass(frozen=True, slots=True)
class Recent:
    """A blockhash to sign with, and for how long it is good."""

    blockhash: str
    slot: int
    last_valid_height: int


class _AccountTransaction(msgspec.Struct, frozen=True):
    """A transaction that touched an account."""

    signature: str
    slot: Number
    err: Any = None
    memo: str | None = None


class _BlockhashContext(msgspec.Struct, frozen=True):
    slot: Number


class _Blockhash(msgspec.Struct, frozen=True, rename="camel"):
    blockhash: str
    last_valid_block_height: Number


class _Latest(msgspec.Struct, frozen=True):
    context: _BlockhashContext
    value: _Blockhash


class _Answered(msgspec.Struct, frozen=True):
    result: msgspec.Raw


_ANSWERED: Final = msgspec.json.Decoder(_Answered)


def latest(url: str) -> Dialogue[Recent]:
    """Ask for a recent blockhash.  Raises NodeSilent."""
    found = yield from _ask(url, "getLatestBlockhash", {"commitment": "confirmed"}, kind=_Latest)
    value = found.value
    return Recent(value.blockhash, found.context.slot, value.last_valid_block_height)


def last_height(url: str) -> Dialogue[int]:
    """Ask for the last block height at which anything can land that is signed by now.

    Its blockhash is of a block that the node knows, or will in NODES_APART_BLOCKS.
    Raises NodeSilent.
    """
    height = yield from _ask(url, "getBlockHeight", {"commitment": "confirmed"}, kind=int)
    return height + BLOCKHASH_BLOCKS + NODES_APART_BLOCKS


def fates(url: str, sent: Iterable[Sent]) -> Dialogue[dict[str, PaymentFate]]:
    """Ask what became of the payments *sent*; return it by key, OPEN where nothing is proven.

    The finalized height is read first, so that what is missing from the
    finalized history after that proves death.
    """
    by_source: defaultdict[str, list[Sent]] = defaultdict(list)
    for each in sent:
        by_source[each.source].append(each)
    found = {each.key: PaymentFate.OPEN for group in by_source.values() for each in group}
    try:
        height = yield from _ask(url, "getBlockHeight", {"commitment": "finalized"}, kind=int)
        for source, group in by_source.items():
            history = yield from _history(url, source, min(each.slot for each in group))
            found |= {each.key: _fate(each, height, history) for each in group}
    except NodeSilent:
        pass
    return found


def _fate(sent: Sent, height: int, history: Sequence[_AccountTransaction]) -> PaymentFate:
    if any(line.err is None and sent.memo in (line.memo or "") for line in history):
        return PaymentFate.PAID
    is_dead = 0 < sent.last_valid_height < height - NODES_APART_BLOCKS
    return PaymentFate.DEAD if is_dead else PaymentFate.OPEN


def _history(url: str, account: str, since_slot: int) -> Dialogue[list[_AccountTransaction]]:
    """Return all that is final and touched *account* since *since_slot*.  Raises NodeSilent."""
    lines: list[_AccountTransaction] = []
    for _ in range(PAGES_MAX):
        options: dict[str, Any] = {"commitment": "finalized", "limit": PAGE}
        options |= {"before": lines[-1].signature} if lines else {}
        page = yield from _ask(
            url, "getSignaturesForAddress", account, options, kind=list[_AccountTransaction]
        )
        lines += page
        if len(page) < PAGE or page[-1].slot < since_slot:
            return lines
    raise NodeSilent(f"{account}: its history has no end")


def _ask(url: str, method: str, *params: object, kind: type[Answer]) -> Dialogue[Answer]:
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    response = yield httpx.Request("POST", url, json=question)
    try:
        result = decode_json(response.content, _ANSWERED).result
        return decode_json(result, msgspec.json.Decoder(kind))
    except Undecodable as cause:
        raise NodeSilent(f"{method}: expected a result from the Solana node") from cause
