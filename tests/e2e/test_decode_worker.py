"""The decode worker, a second process, decodes JSON and protobuf as this process does."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import msgspec
import pytest

from mintscope.app.config.groups import DexConfig
from mintscope.app.running.decode_worker import decoder, worker_of
from mintscope.ingest.decoding import PLACE_BYTES, PLACES, DecodeWorker, Heard, WorkerLost
from mintscope.solana.transaction import Transactions
from mintscope.solana.wire import JsonTransactions
from mintscope.solana.yellowstone import geyser_pb2
from mintscope.solana.yellowstone.transactions import ProtobufTransactions
from mintscope_devchain.chain import Devchain
from mintscope_devchain.stream.protobuf import to_protobuf
from support.oracles.devchain_blocks import NOW, shown

BLOCKS: Final = 30
WAIT_S: Final = 30.0
DECODE: Final = decoder(DexConfig())


@cache
def by_json() -> list[Transactions]:
    chain = Devchain(seed=2, now=NOW, mints=8, history_days=0.02)
    return [
        JsonTransactions([msgspec.Raw(json.dumps(entry).encode()) for entry in shown(chain, slot)])
        for slot in list(chain.blockstore.slots)[-BLOCKS:]
    ]


def by_protobuf() -> list[Transactions]:
    return [
        ProtobufTransactions(
            [
                geyser_pb2.SubscribeUpdateTransactionInfo.FromString(
                    to_protobuf(json.loads(bytes(memoryview(entry))), index).SerializeToString()
                )
                for index, entry in enumerate(block.entries)
            ]
        )
        for block in by_json()
        if isinstance(block, JsonTransactions)
    ]


@pytest.fixture(scope="module")
def worker() -> Iterator[DecodeWorker]:
    worker = worker_of(DexConfig())
    worker.start()
    assert worker.hear(WAIT_S) == Heard(None)  # the worker is ready
    yield worker
    worker.end()


@pytest.mark.parametrize("blocks", [by_json, by_protobuf], ids=["json", "protobuf"])
def test_the_worker_decodes_blocks_as_this_process_does(
    worker: DecodeWorker, blocks: Callable[[], list[Transactions]]
) -> None:
    swaps = 0
    for block in blocks():
        worker.ask(block)
        expected = DECODE(block)
        assert worker.hear(WAIT_S) == Heard(expected)
        swaps += len(expected.swaps)
    assert swaps > 0


def test_several_blocks_are_answered_in_their_order(worker: DecodeWorker) -> None:
    blocks = by_json()[:PLACES]
    for block in blocks:
        worker.ask(block)
    assert [worker.hear(WAIT_S) for _ in blocks] == [Heard(DECODE(block)) for block in blocks]


def test_an_unreadable_transaction_is_quarantined_as_malformed(worker: DecodeWorker) -> None:
    worker.ask(JsonTransactions([msgspec.Raw(b"{")]))
    heard = worker.hear(WAIT_S)
    assert heard is not None
    assert heard.decoded is not None
    assert [each.reason for each in heard.decoded.quarantined] == ["malformed"]


def test_a_block_that_is_too_large_gets_an_answer_without_a_result(worker: DecodeWorker) -> None:
    (block,) = by_json()[:1]
    # The first block is 1.5 times as long as its place in the shared memory.
    worker.ask(JsonTransactions([msgspec.Raw(b"0" * (PLACE_BYTES // 2))] * 3))
    worker.ask(block)
    assert worker.hear(WAIT_S) == Heard(None)
    assert worker.hear(WAIT_S) == Heard(DECODE(block))


def test_hear_returns_none_if_there_is_no_answer_yet(worker: DecodeWorker) -> None:
    assert worker.hear(0.0) is None


def test_a_killed_worker_raises_worker_lost_and_can_be_restarted(worker: DecodeWorker) -> None:
    (block,) = by_json()[:1]
    worker.ask(block)
    worker.hear(WAIT_S)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        worker.hear(WAIT_S)
    worker.end()
    worker.start()
    worker.hear(WAIT_S)  # the worker is ready
    worker.ask(block)
    assert worker.hear(WAIT_S) == Heard(DECODE(block))
