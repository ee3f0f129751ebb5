"""Transactions to swaps.  Total: whatever the bytes, the answer is swaps or a reason.

A failed transaction is no swap.  Neither are liquidity changes, token
creations, tips and commissions: a swap is a call of a DEX, with an instruction
that swaps, after which a pool has received one mint and paid another.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mintscope.core.dex import base58, trace
from mintscope.core.dex.entry import ENTRY, UNPARSABLE, Entry
from mintscope.core.dex.outcome import Decoded, Quarantined, QuarantineReason, Unreadable
from mintscope.core.dex.program import Call, Leg
from mintscope.core.dex.programs import TABLE
from mintscope.core.dex.token_accounts import TokenAccounts
from mintscope.core.market.swap import Swap

DEXES: Final = frozenset(TABLE)
NO_PROGRAM: Final = "unknown"

# A transaction that called nothing moved no pool.  Most of a block are votes, short and of this
# kind: the search spares parsing them.  In longer ones it would cost more than it saves.
NOTHING_CALLED: Final = b'"innerInstructions":[]'
SEARCH_MAX: Final = 4096

# Where the parser stops at a failed transaction: `Meta.err` can only be null.
FAILED: Final = "`$.meta.err`"


def decode_transaction(raw: bytes | msgspec.Raw, index: int) -> Decoded:
    """Return the swaps of one getBlock entry or getTransaction result, number *index* in its block.

    Never raises: what cannot be read is quarantined.
    """
    decoded = Decoded([], [])
    _decode(raw, index, decoded)
    return decoded


def decode_block(transactions: Sequence[msgspec.Raw]) -> Decoded:
    """Return the swaps of a block, in order."""
    decoded = Decoded([], [])
    for index, raw in enumerate(transactions):
        if len(raw) > SEARCH_MAX or NOTHING_CALLED not in bytes(raw):
            _decode(raw, index, decoded)
    return decoded


def _decode(raw: bytes | msgspec.Raw, index: int, into: Decoded) -> None:
    """Add to *into* what *raw* holds."""
    try:
        entry = ENTRY.decode(raw)
    except UNPARSABLE as error:
        if not str(error).endswith(FAILED):
            into.quarantined.append(
                Quarantined(None, index, NO_PROGRAM, QuarantineReason.MALFORMED)
            )
        return
    signature = entry.transaction.signatures[0]
    try:
        traced = _trace(raw, index, entry)
    except Unreadable as unreadable:
        into.quarantined.append(Quarantined(signature, index, NO_PROGRAM, unreadable.reason))
        return
    if traced is None:
        return
    calls, ledger = traced
    for call in calls:
        try:
            into.swaps.extend(_read(call, ledger))
        except Unreadable as unreadable:
            program, reason = call.program.name, unreadable.reason
            into.quarantined.append(Quarantined(signature, index, program, reason))


def _trace(
    raw: bytes | msgspec.Raw, index: int, entry: Entry
) -> tuple[list[Call], TokenAccounts] | None:
    """Return the calls of *entry*, None where no DEX is among its accounts or nothing was called.

    Raises Unreadable where the outcome was not recorded.
    """
    meta, message = entry.meta, entry.transaction.message
    if meta is None:
        raise Unreadable(QuarantineReason.NO_META)
    keys = message.account_keys
    if loaded := meta.loaded_addresses:
        keys = keys + loaded.writable + loaded.readonly
    roles = list(map(trace.ROLES.get, keys))
    if DEXES.isdisjoint(roles):
        return None
    if meta.inner_instructions is None:
        raise Unreadable(QuarantineReason.NO_INNER_INSTRUCTIONS)
    if not meta.inner_instructions:
        return None
    ledger = TokenAccounts(raw, index, entry, meta, keys)
    return trace.calls(message.instructions, ledger.inner, roles), ledger


def _read(call: Call, ledger: TokenAccounts) -> list[Swap]:
    """Return the swaps of *call*, none if its instruction is not one that swaps."""
    legs = _gate(call)
    if legs is None or call.program.read is None:
        return []
    return call.program.read(call, legs, ledger)


def _gate(call: Call) -> tuple[Leg, ...] | None:
    """Return the pools that the instruction of *call* trades with, None where it does not."""
    swaps = call.program.swaps
    legs = swaps.get(b"")
    if legs is None:
        head = base58.head(call.instruction.data)
        legs = swaps.get(head)
        if legs is None:
            legs = swaps.get(head[:1])
    return legs
