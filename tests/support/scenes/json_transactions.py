"""Decodes transactions in the JSON of a node, with the parser and the decoder of ingest."""

from collections.abc import Sequence

import msgspec

from mintscope.dex import decode
from mintscope.dex.outcome import Decoded
from mintscope.solana.wire import JsonTransactions, read_transaction


def decode_transaction(raw: bytes | msgspec.Raw, index: int) -> Decoded:
    transaction = read_transaction(raw, index)
    return decode.decode_block([] if transaction is None else [transaction])


def decode_block(raws: Sequence[msgspec.Raw]) -> Decoded:
    return decode.decode_block(JsonTransactions(raws))
