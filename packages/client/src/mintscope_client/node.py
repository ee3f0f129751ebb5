"""Requests of a buyer to a Solana node, for a blockhash and for the outcome of payments.

Each public function is a generator that yields requests and is sent the answers, so that
`httpx.Client` and `httpx.AsyncClient` can both use it.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, Final, TypeVar

import httpx
import msgspec

from mintscope_client.decoding import Undecodable, decode_json
from mintscope_client.journal import Sent
from mintscope_client.wire import BLOCKHASH_BLOCKS, CONFIRMED, FINALIZED, INVALID_PARAMS

Answer = TypeVar("Answer")
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # the number of a slot or block
Dialogue = Generator[httpx.Request, httpx.Response, Answer]

# The most blocks that the node is assumed to be behind the node of the seller.
NODES_APART_BLOCKS: Final = 32
NODE_TIMEOUT_S: Final = 30.0  # to connect, and for each read and write
TIP: Final = "processed"  # the newest level of commitment; every node knows it
PAGE: Final = 1_000  # the largest number of signatures in one answer of a node
PAGES_MAX: Final = 20


class PaymentFate(Enum):
    """The outcome of a payment, as the chain proves it."""

    OPEN = auto()  # the chain proves nothing: the payment may still land
    PAID = auto()  # the payment landed, and is final
    DEAD = auto()  # the payment did not land, and can no longer land


class NodeSilent(Exception):
    """The Solana node gave no usable response."""


@dataclass(frozen=True, slots=True)
class Recent:
    """A blockhash for a new transaction, and the last block height at which it is valid.

    slot    a slot that was confirmed before signing; slot and height are 0 if unknown
    """

    blockhash: str
    slot: int
    last_valid_height: int


class _AccountTransaction(msgspec.Struct, frozen=True):
    """A line of the RPC method getSignaturesForAddress."""

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


class _EpochInfo(msgspec.Struct, frozen=True, rename="camel"):
    absolute_slot: Number
    block_height: Number


class _Error(msgspec.Struct, frozen=True):
    code: int
    message: str = ""


class _Answered(msgspec.Struct, frozen=True):
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


_ANSWERED: Final = msgspec.json.Decoder(_Answered)


def latest(url: str) -> Dialogue[Recent]:
    """Return a recent blockhash from the node at *url*.  Raises NodeSilent."""
    found = yield from _ask(url, "getLatestBlockhash", {"commitment": CONFIRMED}, kind=_Latest)
    value = found.value
    return Recent(value.blockhash, found.context.slot, value.last_valid_block_height)


def last_height(url: str) -> Dialogue[int]:
    """Return the last block height at which a transaction that is already signed can land.

    This height is 150 blocks after the newest block of the node; other nodes may be ahead of it.
    Raises NodeSilent.
    """
    height = yield from _ask(url, "getBlockHeight", {"commitment": TIP}, kind=int)
    return height + BLOCKHASH_BLOCKS


def fates(url: str, sent: Iterable[Sent]) -> Dialogue[dict[str, PaymentFate]]:
    """Return the outcome of each payment in *sent*, by key; OPEN if the chain does not prove one.

    The finalized height is read first.  A payment can no longer land if its last valid height is
    more than NODES_APART_BLOCKS below that height, and if it is missing from the finalized history
    of a node at that height or above.
    """
    by_source: defaultdict[str, list[Sent]] = defaultdict(list)
    for each in sent:
        by_source[each.source].append(each)
    found = {each.key: PaymentFate.OPEN for group in by_source.values() for each in group}
    try:
        tip = yield from _ask(url, "getEpochInfo", {"commitment": FINALIZED}, kind=_EpochInfo)
        for source, group in by_source.items():
            # If a slot is 0 (unknown), the whole history is read.
            since_slot = min(each.slot for each in group)
            history = yield from _history(url, source, since_slot, tip.absolute_slot)
            found |= {each.key: _fate(each, tip.block_height, history) for each in group}
    except NodeSilent:
        pass
    return found


def _fate(sent: Sent, height: int, history: Sequence[_AccountTransaction]) -> PaymentFate:
    # A failed transaction has paid nothing.  A node writes the length of a memo before its text.
    if any(line.err is None and sent.memo in (line.memo or "") for line in history):
        return PaymentFate.PAID
    is_dead = 0 < sent.last_valid_height < height - NODES_APART_BLOCKS
    return PaymentFate.DEAD if is_dead else PaymentFate.OPEN


def _history(
    url: str, account: str, since_slot: int, until_slot: int
) -> Dialogue[list[_AccountTransaction]]:
    """Return all final transactions of *account* from *since_slot* on; older ones can be included.

    A node that has not reached *until_slot* refuses the request, because several nodes can share
    *url*. Raises NodeSilent, also if the history has more than PAGES_MAX pages.
    """
    lines: list[_AccountTransaction] = []
    for _ in range(PAGES_MAX):
        options: dict[str, Any] = {
            "commitment": FINALIZED,
            "limit": PAGE,
            "minContextSlot": until_slot,
        }
        options |= {"before": lines[-1].signature} if lines else {}
        page = yield from _ask(
            url, "getSignaturesForAddress", account, options, kind=list[_AccountTransaction]
        )
        lines += page
        if len(page) < PAGE or page[-1].slot < since_slot:
            return lines
    raise NodeSilent(f"{account}: its history has no end")


def _ask(url: str, method: str, *params: object, kind: type[Answer]) -> Dialogue[Answer]:
    """Return the result of the node's *method*, decoded as *kind*.

    If the node does not know the level `confirmed`, request `finalized` instead.  Raises NodeSilent
    if the answer has no such result.
    """
    asked = list(params)
    final = [_as_final(each) for each in params]
    try:
        answered = yield from _answered(url, method, asked)
        is_refused = answered.error is not None and answered.error.code == INVALID_PARAMS
        if is_refused and final != asked:
            answered = yield from _answered(url, method, final)
        return decode_json(answered.result, msgspec.json.Decoder(kind))
    except Undecodable as cause:
        raise NodeSilent(f"{method}: expected a result from the Solana node") from cause


def _answered(url: str, method: str, params: list[object]) -> Dialogue[_Answered]:
    question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    # httpx sets the timeout of a client only on the first request of a flow
    timeout = httpx.Timeout(NODE_TIMEOUT_S).as_dict()
    response = yield httpx.Request("POST", url, json=question, extensions={"timeout": timeout})
    return decode_json(response.content, _ANSWERED)


def _as_final(param: object) -> object:
    """Return *param* with the commitment `finalized` if it has the commitment `confirmed`.

    Announced releases of Solana may drop the level `confirmed`: then a block is confirmed when it
    is final.
    """
    if isinstance(param, dict) and param.get("commitment") == CONFIRMED:
        return {**param, "commitment": FINALIZED}
    return param
