"""Transactions to swaps.  Total: whatever the bytes, the answer is swaps or a reason.

A failed transaction is no swap.  Neither are liquidity changes, token
creations, tips and commissions: a swap is a call of a DEX, with an instruction
that swaps, after which a pool has received one mint and paid another.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from mintscope.dex import base58, trace
from mintscope.dex.entry import ENTRY
from mintscope.dex.ledger import Ledger
from mintscope.dex.outcome import Decoded, Quarantined, Reason, Unreadable
from mintscope.dex.program import Call, Leg
from mintscope.dex.programs import BY_ADDRESS
from mintscope.market.swap import Swap
from mintscope.primitives import Signature

DEX_KEYS: Final = frozenset(BY_ADDRESS)
HEAD_MAX: Final = 8
NO_PROGRAM: Final = "unknown"

# A transaction that called nothing moved no pool.  Most of a block are votes, short and of this
# kind: the search spares parsing them.  In longer ones it would cost more than it saves.
NOTHING_CALLED: Final = b'"innerInstructions":[]'
SEARCH_MAX: Final = 4096


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
        _decode(raw, index, decoded)
    return decoded


def _decode(raw: bytes | msgspec.Raw, index: int, into: Decoded) -> None:
    if len(raw) <= SEARCH_MAX and NOTHING_CALLED in bytes(raw):
        return
    try:
        entry = ENTRY.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        into.quarantined.append(Quarantined(None, index, NO_PROGRAM, Reason.MALFORMED))
        return
    signature = Signature(entry.transaction.signatures[0])
    meta = entry.meta
    if meta is None:
        into.quarantined.append(Quarantined(signature, index, NO_PROGRAM, Reason.NO_META))
        return
    if meta.err is not None:
        return
    ledger = Ledger(raw, index, entry, meta)
    if DEX_KEYS.isdisjoint(ledger.keys):
        return
    inner = {x.index: x.instructions for x in meta.inner_instructions or ()}
    try:
        found = trace.calls(entry.transaction.message.instructions, inner, ledger.keys)
    except Unreadable as unreadable:
        into.quarantined.append(Quarantined(signature, index, NO_PROGRAM, unreadable.reason))
        return
    for call in found:
        try:
            into.swaps.extend(_read(call, ledger))
        except Unreadable as unreadable:
            program, reason = call.program.name, unreadable.reason
            into.quarantined.append(Quarantined(signature, index, program, reason))


def _read(call: Call, ledger: Ledger) -> list[Swap]:
    """Return the swaps of *call*, none if its instruction is not one that swaps."""
    legs = _gate(call)
    if legs is None or call.program.read is None:
        return []
    return call.program.read(call, legs, ledger)


def _gate(call: Call) -> tuple[Leg, ...] | None:
    """Return the pools that the instruction of *call* trades with, None where it does not."""
    swaps = call.program.swaps
    if call.program.is_closed:
        return swaps[b""]
    data = base58.decode(call.instruction.data)
    legs = swaps.get(data[:HEAD_MAX])
    return swaps.get(data[:1]) if legs is None else legs
