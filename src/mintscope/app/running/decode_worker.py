"""The second process of ingest, which decodes blocks, and functions that start it.

Its command is `python -m` with this module.  Its arguments are the programs of `dex.programs`, the
file descriptor of the socket for requests, and the file descriptor of the shared memory.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import msgspec
import structlog

from mintscope.app.config.groups import DexConfig
from mintscope.app.config.values import parse_program
from mintscope.app.running.logging import configure_logging
from mintscope.dex.decode import Roles, decode_block
from mintscope.dex.outcome import Decoded
from mintscope.dex.program import Program
from mintscope.dex.programs import BY_ADDRESS, TABLE, added
from mintscope.ingest.decoding import DecodeAhead, DecodeWorker, answer
from mintscope.ingest.slots import Decode
from mintscope.kit.machine import expect_batches
from mintscope.solana.transaction import Transactions
from mintscope.solana.wire import JsonTransactions, read_transaction


def programs_read(dex: DexConfig) -> Sequence[Program]:
    """Return the exchange programs to decode: built-in ones, then others in the configuration."""
    programs = [added(*parse_program(text)) for text in dex.programs]
    return [*TABLE, *(one for one in programs if one.address not in BY_ADDRESS)]


def decoder(dex: DexConfig) -> Decode:
    """Return the decoder of blocks; it also decodes the programs that the operator adds."""
    return partial(decode_block, roles=Roles(programs_read(dex)))


def decode_json_transactions(transactions: Sequence[msgspec.Raw]) -> Decoded:
    """Return the decoded *transactions*, each in the JSON form of the RPC method getBlock."""
    return decode_block(JsonTransactions(transactions))


def decode_json_transaction(transaction: bytes | msgspec.Raw) -> Decoded:
    """Return the decoded *transaction*, in the JSON form of the RPC method getTransaction."""
    read = read_transaction(transaction, 0)
    return decode_block([] if read is None else [read])


MODULE: Final = "mintscope.app.running.decode_worker"
JSON = "json"
PROTOBUF = "protobuf"

log = structlog.get_logger()


@contextmanager
def decoding_ahead(dex: DexConfig, decode: Decode) -> Iterator[DecodeAhead]:
    """Yield a decoder of blocks that uses a second process while several blocks wait.

    decode   the decoder of this process
    """
    ahead = DecodeAhead(decode, worker_of(dex))
    try:
        yield ahead
    finally:
        ahead.close()


def worker_of(dex: DexConfig) -> DecodeWorker:
    """Return the process that decodes blocks beside this one; it starts at its first request."""
    return DecodeWorker([sys.executable, "-m", MODULE, *dex.programs], pack)


def pack(transactions: Transactions) -> tuple[str, Sequence[memoryview]]:
    """Return *transactions* in the form in which another process gets them.

    These are the format, JSON or PROTOBUF, and the bytes of each transaction.
    """
    if isinstance(transactions, JsonTransactions):
        return JSON, [memoryview(entry) for entry in transactions.entries]
    # Imported only for a stream, because protobuf is an extra.
    from mintscope.solana.yellowstone.transactions import ProtobufTransactions  # noqa: PLC0415 - see above

    assert isinstance(transactions, ProtobufTransactions)
    return PROTOBUF, [memoryview(entry.SerializeToString()) for entry in transactions.entries]


def unpack(form: str, parts: Sequence[memoryview]) -> Transactions:
    """Return the transactions that another process has sent as *parts* in the format *form*."""
    if form == JSON:
        return JsonTransactions([msgspec.Raw(part) for part in parts])
    from mintscope.solana.yellowstone.geyser_pb2 import SubscribeUpdateTransactionInfo  # noqa: PLC0415 - as above
    from mintscope.solana.yellowstone.transactions import ProtobufTransactions  # noqa: PLC0415 - as above

    return ProtobufTransactions(
        [SubscribeUpdateTransactionInfo.FromString(bytes(part)) for part in parts]
    )


def main() -> None:
    """Decode the blocks that ingest sends, until ingest closes its end of the socket."""
    for each in (signal.SIGINT, signal.SIGTERM):  # the parent handles them, and ends this process
        signal.signal(each, signal.SIG_IGN)
    *programs, socket_number, memory_number = sys.argv[1:]
    configure_logging("warning", json_lines=not sys.stderr.isatty())
    try:
        expect_batches()
        decode = decoder(DexConfig(programs=tuple(programs)))
        answer(decode, unpack, int(socket_number), int(memory_number))
    except Exception:
        log.exception("process failed", process="ingest, decoding")
        sys.exit(1)


if __name__ == "__main__":
    main()
