"""Transactions from the protobuf of a stream: read field by field, nothing becomes text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from based58 import b58decode, b58encode

from mintscope.base.primitives import Signature
from mintscope.base.solana import LOGGED_PROGRAMS
from mintscope.base.transaction import (
    Effects,
    InnerInstructions,
    Instruction,
    TokenAmount,
    TokenBalance,
    Transaction,
    UnreadableTransaction,
)
from mintscope.base.yellowstone import geyser_pb2, solana_storage_pb2

KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
TOP: Final = 1
LOGGED_KEYS: Final = frozenset(b58decode(one.encode()) for one in LOGGED_PROGRAMS)


class ProtobufTransactions(msgspec.Struct, frozen=True):
    """The transactions of one block, each as the stream has it."""

    entries: Sequence[geyser_pb2.SubscribeUpdateTransactionInfo]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Transaction | UnreadableTransaction]:
        for entry in self.entries:
            read = read_info(entry)
            if read is not None:
                yield read


def read_info(
    entry: geyser_pb2.SubscribeUpdateTransactionInfo,
) -> Transaction | UnreadableTransaction | None:
    """Return the transaction, None if it failed or called nothing.  Never raises."""
    if entry.is_vote:
        return None
    if not entry.HasField("meta"):
        return UnreadableTransaction(entry.index, _name(entry.signature), "no_meta")
    meta = entry.meta
    if meta.HasField("err"):
        return None
    message = entry.transaction.message
    has_called = meta.inner_instructions or meta.inner_instructions_none
    if not has_called and LOGGED_KEYS.isdisjoint(message.account_keys):
        return None
    keys = [
        *message.account_keys,
        *meta.loaded_writable_addresses,
        *meta.loaded_readonly_addresses,
    ]
    is_whole = len(entry.signature) == SIGNATURE_BYTES and bool(keys)
    if not is_whole or any(len(key) != KEY_BYTES for key in keys):
        return UnreadableTransaction(entry.index, _name(entry.signature), "malformed")
    return Transaction(
        entry.index,
        entry.signature,
        keys,
        message.header.num_required_signatures,
        [
            Instruction(call.accounts, call.data, call.program_id_index, TOP)
            for call in message.instructions
        ],
        None if meta.inner_instructions_none else _read_inner(meta.inner_instructions),
        _read_balances(meta.post_token_balances),
        lambda: _read_balances(meta.pre_token_balances),
        lambda: Effects(meta.pre_balances, meta.post_balances, meta.log_messages),
    )


def _read_inner(
    groups: Iterable[solana_storage_pb2.InnerInstructions],
) -> Sequence[InnerInstructions]:
    return [
        InnerInstructions(
            group.index,
            [
                Instruction(
                    call.accounts, call.data, call.program_id_index, call.stack_height or None
                )
                for call in group.instructions
            ],
        )
        for group in groups
    ]


def _read_balances(
    balances: Iterable[solana_storage_pb2.TokenBalance],
) -> Sequence[TokenBalance]:
    return [
        TokenBalance(
            balance.account_index,
            balance.mint,
            balance.owner or None,
            TokenAmount(
                amount=balance.ui_token_amount.amount, decimals=balance.ui_token_amount.decimals
            )
            if balance.HasField("ui_token_amount")
            else None,
        )
        for balance in balances
    ]


def _name(signature: bytes) -> Signature | None:
    return Signature(b58encode(signature).decode()) if len(signature) == SIGNATURE_BYTES else None
