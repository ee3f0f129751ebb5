"""Swaps from the JSON of a node: the reader of its format joined with the decoder."""

from collections.abc import Sequence

import msgspec

from mintscope.core.dex.decode import decode_block
from mintscope.core.dex.outcome import Decoded
from mintscope.edges.sources.json_transactions import JsonTransactions, read_transaction


def decode_json_transactions(transactions: Sequence[msgspec.Raw]) -> Decoded:
    """Return what the transactions of a getBlock result decode to."""
    return decode_block(JsonTransactions(transactions))


def decode_json_transaction(transaction: bytes | msgspec.Raw) -> Decoded:
    """Return what a getTransaction result decodes to."""
    read = read_transaction(transaction, 0)
    return decode_block([] if read is None else [read])
