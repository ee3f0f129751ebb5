"""Transactions to swaps.  Total: whatever the bytes, the answer is swaps or a reason.

A failed transaction is no swap.  Neither are liquidity changes, token
creations, tips and commissions: a swap is a call of a DEX, with an instruction
that swaps, after which a pool has received one mint and paid another.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mintscope.dex import base58, trace
from mintscope.dex.entry import ENTRY, UNPARSABLE, Entry
from mintscope.dex.ledger import Ledger
from mintscope.dex.outcome import Decoded, Quarantined, Reason, Unreadable
from mintscope.dex.program import Call, Leg
from mintscope.dex.programs import BY_ADDRESS
from mintscope.market.swap import Swap
from mintscope.primitives import Signature

DEX_KEYS: Final = frozenset(BY_ADDRESS)
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
            into.quarantined.append(Quarantined(None, index, NO_PROGRAM, Reason.MALFORMED))
        return
    signature = Signature(entry.transaction.signatures[0])
    try:
        ledger = _ledger(raw, index, entry)
        if ledger is None:
            return
        calls = trace.calls(entry.transaction.message.instructions, ledger.inner, ledger.keys)
    except Unreadable as unreadable:
        into.quarantined.append(Quarantined(signature, index, NO_PROGRAM, unreadable.reason))
        return
    for call in calls:
        try:
            into.swaps.extend(_read(call, ledger))
        except Unreadable as unreadable:
            program, reason = call.program.name, unreadable.reason
            into.quarantined.append(Quarantined(signature, index, program, reason))


def _ledger(raw: bytes | msgspec.Raw, index: int, entry: Entry) -> Ledger | None:
    """Return the accounts of *entry*, None where no DEX is among them or nothing was called.

    Raises Unreadable where the outcome was not recorded.
    """
    meta = entry.meta
    if meta is None:
        raise Unreadable(Reason.NO_META)
    keys = entry.transaction.message.account_keys
    if loaded := meta.loaded_addresses:
        keys = keys + loaded.writable + loaded.readonly
    if DEX_KEYS.isdisjoint(keys):
        return None
    if meta.inner_instructions is None:
        raise Unreadable(Reason.NO_INNER_INSTRUCTIONS)
    return Ledger(raw, index, entry, meta, keys) if meta.inner_instructions else None


def _read(call: Call, ledger: Ledger) -> list[Swap]:
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
