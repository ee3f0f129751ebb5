"""Transactions of a gRPC stream, and a check that its slots are plausible."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from based58 import b58decode, b58encode

from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Signature, Slot
from mintscope.solana import transaction
from mintscope.solana.blocks import LOGGED_PROGRAMS
from mintscope.solana.node import Node
from mintscope.solana.rpc import Commitment, RpcFailure
from mintscope.solana.yellowstone import geyser_pb2, solana_storage_pb2

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
TOP: Final = 1
LOGGED_KEYS: Final = frozenset(b58decode(one.encode()) for one in LOGGED_PROGRAMS)


class ProtobufTransactions(msgspec.Struct, frozen=True):
    """The transactions of one block, each as a message of the stream."""

    entries: Sequence[geyser_pb2.SubscribeUpdateTransactionInfo]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[transaction.Transaction | transaction.UnreadableTransaction]:
        for entry in self.entries:
            read = read_info(entry)
            if read is not None:
                yield read


def read_info(
    entry: geyser_pb2.SubscribeUpdateTransactionInfo,
) -> transaction.Transaction | transaction.UnreadableTransaction | None:
    """Return the transaction of *entry*; None if it failed or cannot have a swap.  Never raises."""
    if entry.is_vote:
        return None
    if not entry.HasField("meta"):
        return transaction.UnreadableTransaction(entry.index, _name(entry.signature), "no_meta")
    meta = entry.meta
    if meta.HasField("err"):
        return None
    message = entry.transaction.message
    has_called = meta.inner_instructions or meta.inner_instructions_none
    if not has_called and LOGGED_KEYS.isdisjoint(message.account_keys):
        return None
    keys = [*message.account_keys, *meta.loaded_writable_addresses, *meta.loaded_readonly_addresses]
    is_whole = len(entry.signature) == SIGNATURE_BYTES and bool(keys)
    if not is_whole or any(len(key) != KEY_BYTES for key in keys):
        return transaction.UnreadableTransaction(entry.index, _name(entry.signature), "malformed")
    return transaction.Transaction(
        entry.index,
        entry.signature,
        keys,
        message.header.num_required_signatures,
        [
            transaction.Instruction(call.accounts, call.data, call.program_id_index, TOP)
            for call in message.instructions
        ],
        None if meta.inner_instructions_none else _read_inner(meta.inner_instructions),
        _read_balances(meta.post_token_balances),
        lambda: _read_balances(meta.pre_token_balances),
        lambda: transaction.Effects(meta.pre_balances, meta.post_balances, meta.log_messages),
    )


def _read_inner(
    groups: Iterable[solana_storage_pb2.InnerInstructions],
) -> Sequence[transaction.InnerInstructions]:
    return [
        transaction.InnerInstructions(
            group.index,
            [
                # In protobuf, a height that the node did not send is 0.
                transaction.Instruction(
                    call.accounts, call.data, call.program_id_index, call.stack_height or None
                )
                for call in group.instructions
            ],
        )
        for group in groups
    ]


def _read_balances(
    balances: Iterable[solana_storage_pb2.TokenBalance],
) -> Sequence[transaction.TokenBalance]:
    return [
        transaction.TokenBalance(
            balance.account_index,
            balance.mint,
            balance.owner or None,
            transaction.TokenAmount(
                amount=balance.ui_token_amount.amount, decimals=balance.ui_token_amount.decimals
            )
            if balance.HasField("ui_token_amount")
            else None,
        )
        for balance in balances
    ]


def _name(signature: bytes) -> Signature | None:
    return Signature(b58encode(signature).decode()) if len(signature) == SIGNATURE_BYTES else None


ASK_S: Final = 2.0  # time limit for the answer of the node
AHEAD_MAX: Final = 1_000  # in slots; no two nodes are so far apart
SLOTS_PER_S: Final = 50  # more than any cluster produces
ABSURD: Final = 2**53  # more than JSON-RPC can express


class PlausibleSlots:
    """Detects slots of a session that are too high to be true.

    The limit follows from the newest slot of a JSON-RPC node at the start of the session, and the
    time since then.
    """

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._head: Slot | None = None
        self._asked_at_s = 0.0

    async def ask(self) -> None:
        """Request the newest confirmed slot of the node; without an answer, keep the last one."""
        try:
            async with asyncio.timeout(ASK_S):
                head = (await self._node.head(Commitment.CONFIRMED)).slot
        except (RpcFailure, TimeoutError):
            return
        self._head, self._asked_at_s = head, self._clock.monotonic_s()

    def allows(self, update: geyser_pb2.SubscribeUpdate) -> bool:
        """Return whether the chain can have reached the slot of *update*; without a slot, True."""
        slot = slot_of(update)
        if self._head is None:
            return slot < ABSURD
        passed_s = self._clock.monotonic_s() - self._asked_at_s
        return slot <= self._head + AHEAD_MAX + SLOTS_PER_S * passed_s


WITH_SLOT: Final = frozenset({"block", "slot", "transaction", "block_meta"})


def slot_of(update: geyser_pb2.SubscribeUpdate) -> int:
    """Return the slot of *update*, or 0 if *update* has no slot."""
    kind = update.WhichOneof("update_oneof")
    return int(getattr(update, kind).slot) if kind in WITH_SLOT else 0
