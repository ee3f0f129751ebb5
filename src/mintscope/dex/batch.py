"""Batches of the token programs: several instructions in one.

Layout (instruction 255 of SPL Token since May 2026, and of Token-2022): byte ff, then for each
instruction the number of its accounts u8, the length of its data u8, and the data.  The accounts
of all instructions follow one another; further accounts have no meaning.
"""

from typing import Final, TypeAlias

from based58 import b58decode

from mintscope.dex.base58 import SHORT_MAX, data_of, decode
from mintscope.dex.outcome import QuarantineReason, Unreadable
from mintscope.solana.transaction import Instruction

BATCH: Final = 0xFF
FIRST_BYTE: Final = bytes([BATCH])
HEADER_SIZE: Final = 2
# In all batches of a transaction.  The chain allows about 5,000, for the fee of one transaction.
INSTRUCTIONS_MAX: Final = 1_000


Opened: TypeAlias = dict[int, list[Instruction]]
"""The instructions in the batches of one transaction, by the `id` of the batch."""


def expand(tokens: list[Instruction], opened: Opened | None = None) -> list[Instruction]:
    """Return *tokens*, calls of token programs, with each batch replaced by its instructions.

    Usually there is no batch, and the result is *tokens* itself.  All data are bytes afterwards.
    A batch that is in *opened* already is replaced by the same objects as before.
    Raises Unreadable for a malformed batch, for example one that is cut short or lacks accounts,
    for data that is not base58, and if *opened* would hold more than INSTRUCTIONS_MAX instructions.
    """
    has_batch = False
    try:
        for token in tokens:  # `data_of` is inlined: calls would take most of the time
            data = token.data
            if isinstance(data, str):
                whole = b58decode(data.encode()) if len(data) <= SHORT_MAX else decode(data)
                data = token.data = whole
            if data and data[0] == BATCH:
                has_batch = True
    except ValueError:
        raise Unreadable(QuarantineReason.BAD_BASE58) from None
    if not has_batch:
        return tokens
    opened = {} if opened is None else opened
    found: list[Instruction] = []
    for token in tokens:
        if data_of(token)[:1] == FIRST_BYTE:
            # `moves` keeps fees by the `id` of a transfer, so later calls must return the same
            # objects.  Ids stay unique, because the transaction keeps each batch alive.
            if id(token) not in opened:
                held: list[Instruction] = []
                _unpack(token, held)
                if sum(map(len, opened.values())) + len(held) > INSTRUCTIONS_MAX:
                    raise Unreadable(QuarantineReason.MALFORMED_BATCH)
                opened[id(token)] = held
            found += opened[id(token)]
        else:
            found.append(token)
    return found


def expand_readable(tokens: list[Instruction], opened: Opened) -> list[Instruction]:
    """Return *tokens* with each batch replaced by its instructions, except unreadable batches."""
    try:
        return expand(tokens, opened)
    except Unreadable:
        found: list[Instruction] = []
        for token in tokens:
            try:
                found += expand([token], opened)
            except Unreadable:
                found.append(token)
        return found


def _unpack(batch: Instruction, found: list[Instruction]) -> None:
    """Add the instructions of *batch* and of nested batches to *found*.

    Raises Unreadable if a batch is malformed, or has more than INSTRUCTIONS_MAX instructions.
    """
    # The depth is limited: a nested batch has at most 255 bytes, which allows 84 levels below it.
    data = data_of(batch)
    accounts = batch.accounts
    size = len(data)
    at = 1
    taken = 0
    while True:
        # An instruction has at least one byte of data, so a batch cannot end after a header.
        if at + HEADER_SIZE >= size or len(found) >= INSTRUCTIONS_MAX:
            raise Unreadable(QuarantineReason.MALFORMED_BATCH)
        first = taken
        taken += data[at]
        start = at + HEADER_SIZE
        at = start + data[at + 1]
        if at == start or at > size or taken > len(accounts):
            raise Unreadable(QuarantineReason.MALFORMED_BATCH)
        one = Instruction(
            accounts[first:taken], data[start:at], batch.program_id_index, batch.stack_height
        )
        if data[start] == BATCH:
            _unpack(one, found)
        else:
            found.append(one)
        if at == size:
            return
