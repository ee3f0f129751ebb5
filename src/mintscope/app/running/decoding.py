"""The decoder with the configured programs, and its combination with the JSON reader."""

from collections.abc import Sequence
from functools import partial

import msgspec

from mintscope.app.config.groups import DexConfig
from mintscope.app.config.values import parse_program
from mintscope.dex.decode import decode_block
from mintscope.dex.outcome import Decoded
from mintscope.dex.program import Program
from mintscope.dex.programs import BY_ADDRESS, TABLE, added
from mintscope.dex.trace import Roles
from mintscope.ingest.slots import Decode
from mintscope.solana.wire import JsonTransactions, read_transaction


def programs_read(dex: DexConfig) -> Sequence[Program]:
    """Return the programs of the table, then those of the operator that the table lacks.

    The table wins: a newer release may know what an older configuration adds.
    """
    programs = [added(*parse_program(text)) for text in dex.programs]
    return [*TABLE, *(one for one in programs if one.address not in BY_ADDRESS)]


def decoder(dex: DexConfig) -> Decode:
    """Return the decoder of blocks, with the programs that the operator added."""
    return partial(decode_block, roles=Roles(programs_read(dex)))


def decode_json_transactions(transactions: Sequence[msgspec.Raw]) -> Decoded:
    """Return the decoded transactions of a getBlock result."""
    return decode_block(JsonTransactions(transactions))


def decode_json_transaction(transaction: bytes | msgspec.Raw) -> Decoded:
    """Return the decoded transaction of a getTransaction result."""
    read = read_transaction(transaction, 0)
    return decode_block([] if read is None else [read])
